"""Reading nodes with clush from a head: the command, and the lines that are accepted."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.fleet.through import clush, own_lines
from lockstep.probe.parse import record
from lockstep.probe.parts import joined, parted
from lockstep.probe.ship import Request, for_many
from tests.checks.controller import HEAD, OF_HEAD, Controller, through

CLUSH = """\
#!/bin/sh
# A double of clush(1): the command for each node by a shell, its lines, whole, with its name.
echo "$*" >"$0.ran"
case $* in *--nostdin*) : >"$0.input";; *) cat >"$0.input";; esac
while [ "$1" != -- ]; do shift; done
for node in worker1 worker2 worker3; do
    NODE=$node sh -c "$2" <"$0.input" | sed -u "s/^/$node: /" &
done
wait
"""
UNAME = """\
#!/bin/sh
case $NODE in worker2) echo worker1;; worker3) echo stranger;; *) echo $NODE;; esac
"""
LIKE_ROOT = "#!/bin/sh\necho 0\n"
OTHER_USER = "#!/bin/sh\necho 1000\n"
SUDO = """\
#!/bin/sh
echo "$1 $2 $3" >>"$0.ran"
shift 2
exec "$@"
"""


@pytest.mark.parametrize(("who", "by_sudo"), [(LIKE_ROOT, 0), (OTHER_USER, 3)])
def test_one_command_reads_all_and_a_node_speaks_for_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str, by_sudo: int
) -> None:
    for name, script in (("clush", CLUSH), ("uname", UNAME), ("id", who), ("sudo", SUDO)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin")
    requests = {
        "worker1": Request(files=("/etc/hostname",)),
        "worker2": Request(files=("/etc/passwd",)),
        "worker3": Request(files=("/etc/passwd",)),
    }
    done = subprocess.run(
        ["sh", "-c", clush(requests)],
        input="\n".join(for_many(requests, {})) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(joined(own_lines(done.stdout.splitlines())))
    assert list(found) == ["worker1"]
    files = record(found["worker1"]).get("files")
    assert isinstance(files, dict)
    assert list(files) == ["/etc/hostname"]
    assert done.stderr.splitlines() == [
        "this node is named 'stranger', but there is no request for a node of that name"
    ]
    words = (tmp_path / "clush.ran").read_text().split()
    assert {"-w", "worker[1-3]", "--command_timeout=60"} <= set(words)
    ran = tmp_path / "sudo.ran"
    said = ran.read_text().splitlines() if ran.exists() else []
    assert said == ["-n -H python3"] * by_sudo


def of(name: str) -> list[str]:
    chance = random.Random(name)
    return [*parted(name, json.dumps([chance.random() for _ in range(500)]))]


@pytest.mark.parametrize(
    ("said", "own"),
    [
        ([f"worker1: {line}" for line in of("worker1")], True),
        ([f"worker2: {line}" for line in of("worker1")], False),
        (of("worker1"), False),
        ([f"worker[1-2]: {line}" for line in of("worker1")], False),
    ],
    ids=["its own", "of another", "nobody's", "of several"],
)
def test_a_line_counts_where_the_node_that_said_it_is_the_one_it_is_about(
    said: list[str], own: bool
) -> None:
    noise = ["", "worker1: Welcome", "worker1:", "clush: worker3: exited with exit code 1"]
    assert [*own_lines([*noise, *said])] == (of("worker1") if own else [])


def test_workers_are_read_by_one_command_of_the_head(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{name}: {line}" for name in ("worker1", "worker3") for line in of(name)]
    head = Controller(OF_HEAD, (False, lines, ["clush: worker2: exited with exit code 255"]))
    found = through(monkeypatch, head, "--through-clush")
    assert list(found) == ["head1", "worker1", "worker3"]
    assert found["head1"] == HEAD
    assert head.asked[1].startswith("sudo -n -H timeout --kill-after=10 300 clush --quiet ")
    assert "-w 'worker[1-8]' --" in head.asked[1]
    assert capsys.readouterr().err == "clush: worker2: exited with exit code 255\n"
