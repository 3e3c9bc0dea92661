"""Reading nodes with a Slurm step: where it runs, its command, and records from mixed lines."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lockstep.checks.fingerprint.places import Taken
from lockstep.fleet import read_nodes
from lockstep.fleet import through as programs
from lockstep.fleet.request import request
from lockstep.fleet.through import Place
from lockstep.probe.parse import record
from lockstep.probe.parts import joined, parted
from lockstep.probe.record import Record, Unreachable
from lockstep.probe.ship import Request, for_many
from tests.checks import recorded
from tests.checks.controller import HEAD, OF_HEAD, Controller, through

WORKERS = tuple(f"worker{number}" for number in range(1, 9))
TORN = 1024
"""Bytes of a message in which Slurm passes output on."""


def random_record(seed: int) -> str:
    chance = random.Random(seed)
    return json.dumps([chance.random() for _ in range(2000)])


def test_lines_of_many_nodes_in_any_order_become_their_records() -> None:
    records = {name: random_record(number) for number, name in enumerate(WORKERS)}
    lines = [line for name, text in records.items() for line in parted(name, text)]
    assert max(len(line) + 1 for line in lines) < TORN
    random.Random(1).shuffle(lines)
    torn = "LOCKSTEP-PART worker3 0x 1 abc"
    assert dict(joined(["srun: error: something", torn, *lines, ""])) == records
    lost = next(line for line in lines if line.split()[1] == "worker3")
    rest = [line for line in lines if line != lost]
    assert dict(joined(rest)).keys() == records.keys() - {"worker3"}
    damaged = [*rest, lost.replace(lost[-9:], "Damaged==")]
    assert dict(joined(damaged)).keys() == records.keys() - {"worker3"}


@pytest.mark.parametrize(
    ("job", "said", "places"),
    [
        (
            "",
            [
                "idle batch worker[1-3,9]",
                "idle debug worker[3-4]",
                "alloc debug worker5",
                "drain batch worker6",
                "idle~ batch worker7",
                "",
            ],
            [
                Place(("worker1", "worker2", "worker3"), ("--partition=batch",)),
                Place(("worker4",), ("--partition=debug",)),
            ],
        ),
        (
            "1042_7",
            ["worker[2,9]"],
            [Place(("worker2",), ("--jobid=1042_7", "--overlap"))],
        ),
        ("1042", [], []),
    ],
    ids=["idle", "job", "job that has ended"],
)
def test_a_step_runs_where_slurm_says(job: str, said: list[str], places: list[Place]) -> None:
    assert programs.places(said, job, WORKERS) == places


SRUN = """\
#!/bin/sh
# A double of srun(1): lines of tasks that run side by side are mixed, and whole (sed -u).
echo "$*" >>"$0.ran"
case $* in *--input=all*) cat >"$0.input";; *) : >"$0.input";; esac
while [ "$1" != sh ]; do shift; done
for node in worker1 worker2; do SLURMD_NODENAME=$node "$@" <"$0.input" | sed -u '' & done
wait
"""
SYSTEMD_RUN = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def doubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of Slurm and systemd that run the step's program here."""
    for name, script in (("srun", SRUN), ("systemd-run", SYSTEMD_RUN)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin")
    return tmp_path


def stepped(requests: dict[str, Request], own: dict[str, Any]) -> dict[str, Record]:
    place = Place(("worker1", "worker2"), ("--partition=batch",))
    text = "\n".join(for_many(requests, own)) + "\n"
    done = subprocess.run(
        ["sh", "-c", programs.step(place)], input=text, capture_output=True, text=True, check=True
    )
    return {name: record(found) for name, found in joined(done.stdout.splitlines())}


def test_one_command_reads_nodes_of_different_requests(doubles: Path) -> None:
    requests = {
        "worker1": Request(files=("/etc/hostname",), credential="MUNGE:x:"),
        "worker2": Request(files=("/etc/passwd",), credential="MUNGE:x:"),
    }
    files = {name: one.get("files") for name, one in stepped(requests, {}).items()}
    assert {name: list(found) for name, found in files.items() if isinstance(found, dict)} == {
        "worker1": ["/etc/hostname"],
        "worker2": ["/etc/passwd"],
    }
    words = (doubles / "srun.ran").read_text().split()
    assert {"--nodelist=worker[1-2]", "--nodes=2", "--immediate=10"} <= set(words)


def test_fingerprints_replace_the_identities_of_each_node(doubles: Path) -> None:
    same = Request(fingerprint="cluster", asked=(("user", "#0"),))
    own = {"worker1": (("name", "root"),)}
    found = stepped({"worker1": same, "worker2": same}, own)
    touched = {name: Taken.of(one.get("fingerprint")).touched for name, one in found.items()}
    assert "<name of this node>" in touched["worker1"]["user"]
    assert "user" not in touched["worker2"]
    assert "worker1" not in (doubles / "srun.ran").read_text().replace("worker[1-2]", "")


def test_the_controller_reads_itself_and_then_the_workers_by_a_step(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: dict[str, Request] = {}
    monkeypatch.setattr(
        read_nodes, "for_many", lambda requests, own: (asked.update(requests), ["the program"])[1]
    )
    lines = [line for name in WORKERS[:3] for line in parted(name, random_record(1))]
    complaints = [f"srun: error: {number}" for number in range(9)]
    controller = Controller(OF_HEAD, (True, ["worker[1-4]"], []), (False, lines, complaints))
    found = through(monkeypatch, controller, "--through-slurm=1042")
    # worker4 said nothing: whoever asked reads it another way.
    assert list(found) == ["head1", "worker1", "worker2", "worker3"]
    assert found["head1"] == HEAD
    assert "--jobs=1042" in controller.asked[1]
    assert controller.asked[2].startswith(
        "sudo -n -H timeout --kill-after=10 90 srun --jobid=1042 --overlap"
    )
    assert controller.told[2] == ["the program"]
    assert list(asked) == list(WORKERS[:4])
    plan = recorded.consistent().plan.nodes["worker1"]
    assert asked["worker1"].credential == "MUNGE:x:"
    assert asked["worker1"].files == request(plan).files
    assert capsys.readouterr().err.splitlines() == complaints[:5]


def test_a_controller_that_does_not_answer_starts_no_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = Controller((False, [], ["python3: not found"]), (False, [], ["sinfo: no"]))
    assert through(monkeypatch, controller, "--through-slurm=") == {
        "head1": Unreachable(
            "python3 is not installed, or not in the PATH of the account. Next: install python3 "
            "(3.9 or newer) on the node"
        )
    }
    assert len(controller.asked) == 2
    assert capsys.readouterr().err == "sinfo: no\n"
