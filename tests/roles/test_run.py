"""A run of pyinfra's own command locks the cluster and is logged; this machine is the head."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.history import runs, store
from lockstep.history.runs import Change, OnNode, Result, Run
from lockstep.lock import Lock, file, parsed, this_run
from lockstep.roles.operations import run
from lockstep.roles.operations.results import commit_of
from tests.plan.example import planned
from tests.test_pyinfra_assumptions import ROOT, pyinfra

pytestmark = pytest.mark.integration

INVENTORY = """\
from tests.plan.example import planned
_plan = planned()
head = [("@local", {"plan": _plan.nodes["head1"]})]
worker = [("@fake/worker1", {"plan": _plan.nodes["worker1"], "fake_delay": 0})]
"""
DEPLOY = """\
from pyinfra import host
from lockstep.roles.operations import run
from lockstep.roles.operations.noted import note
from lockstep.roles.operations.operation import operation
run.FOLDER = "HERE/run"

@operation()
def change():
    note(host, ["/etc/a"])
    yield "cat HERE/run/lock >>HERE/seen; THEN"

@operation("right")
def last():
    yield from ()

run.begins(host.state, host.data.plan.cluster)
if host.name == "@local":
    change(name="Change")
last(name="Last")
"""
ELSEWHERE = dataclasses.replace(this_run("pyinfra -y prod.py"), host="elsewhere", user="ann")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the state of this machine and for /run/lockstep."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def ran(
    folder: Path, *options: str, then: str = "true"
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run a deploy; return how it ended, and what its operation found in the lock."""
    deploy = DEPLOY.replace("HERE", str(folder)).replace("THEN", then)
    done = pyinfra(folder, deploy, *options, inventory=INVENTORY)
    seen = folder / "seen"
    return done, seen.read_text() if seen.exists() else ""


def logged() -> Run | None:
    """Return the only run in the history; None if it has none."""
    path = store.file(planned().spec.name)
    if not path.exists():
        return None
    with store.opened(path) as history:
        (found,) = runs.since(history, 0.0)
    return found


def locked(folder: Path, text: str) -> None:
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run/lock").write_text(text)


def test_a_run_has_both_locks_and_leaves_none(folder: Path) -> None:
    done, seen = ran(folder, "-y", "--data", "roles=munge", "--data", "token=secret")
    assert done.returncode == 0, done.stderr
    holder = parsed(seen)
    assert holder is not None
    shown = "pyinfra -y --data roles=munge --data ... cluster.py deploy.py"
    assert holder.command == shown
    assert (folder / "run/lock").read_text() == ""
    assert (folder / "run/lock").stat().st_mode & 0o777 == 0o600
    assert file(planned().spec.name).read_text() == ""
    kept = logged()
    assert kept is not None
    assert (kept.command, kept.user, kept.host) == (shown, holder.user, holder.host)
    assert kept.nodes == {
        "head1": OnNode(Result.CHANGED, (Change("Change", ("/etc/a",)),)),
        "worker1": OnNode(Result.NONE),
    }


def test_a_run_that_fails_leaves_no_lock(folder: Path) -> None:
    done, seen = ran(folder, "-y", then="false")
    assert done.returncode == 1
    assert seen
    kept = logged()
    assert kept is not None
    assert kept.nodes["head1"].result is Result.FAILED
    assert kept.nodes["head1"].reason == "failed in Change"
    assert kept.nodes["worker1"].result is Result.NONE
    assert (folder / "run/lock").read_text() == ""
    assert file(planned().spec.name).read_text() == ""


def test_ctrl_c_is_one_line_and_leaves_no_lock(folder: Path) -> None:
    deploy = DEPLOY.replace("HERE", str(folder)).replace("THEN", "sleep 20")
    (folder / "cluster.py").write_text(INVENTORY)
    (folder / "deploy.py").write_text(deploy)
    with subprocess.Popen(
        [sys.executable, "-m", "pyinfra", "-y", "cluster.py", "deploy.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        ends = time.monotonic() + 60
        while not (folder / "seen").exists() and time.monotonic() < ends:
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    (line,) = (one for one in said.splitlines() if "nterrupted" in one)
    assert "Interrupted: untouched: head1,worker1. Next: pyinfra -y cluster.py deploy.py" in line
    assert "Traceback" not in said
    kept = logged()
    assert kept is not None
    assert {one.result for one in kept.nodes.values()} == {Result.UNFINISHED}
    assert (folder / "run/lock").read_text() == ""
    assert file(planned().spec.name).read_text() == ""


@pytest.mark.parametrize("options", [("--dry",), ()])  # not confirmed: there is no Enter
def test_a_preview_takes_no_lock(folder: Path, options: tuple[str, ...]) -> None:
    _, seen = ran(folder, *options)
    assert seen == ""
    assert not (folder / "run").exists()
    assert not file(planned().spec.name).exists()
    assert logged() is None


def test_a_run_of_another_machine_is_named_and_nothing_is_changed(folder: Path) -> None:
    locked(folder, ELSEWHERE.text + "\n")
    done, seen = ran(folder, "-y")
    assert done.returncode == 1
    assert seen == ""
    assert "another run is changing this cluster, as @local says; nothing was" in done.stderr
    assert f"ann on elsewhere, process {ELSEWHERE.pid}" in done.stderr
    assert "deploys/unlock.py" in done.stderr
    assert "Traceback" not in done.stderr
    assert parsed((folder / "run/lock").read_text()) == ELSEWHERE
    assert file(planned().spec.name).read_text() == ""
    assert logged() is None


def test_a_run_of_this_machine_is_named_before_any_node_is_asked(folder: Path) -> None:
    other = Lock(file(planned().spec.name), this_run("pyinfra -y prod.py"))
    done, seen = ran(folder, "-y")
    other.release()
    assert done.returncode == 1
    assert seen == ""
    assert "another run is changing this cluster; nothing was changed" in done.stderr
    assert not (folder / "run").exists()


def test_the_lock_of_a_dead_process_of_this_machine_is_taken_over(folder: Path) -> None:
    dead = dataclasses.replace(this_run("killed"), started="1")
    if not dead.machine:
        pytest.skip("this machine has no machine-id")
    locked(folder, dead.text + "\n")
    done, seen = ran(folder, "-y")
    assert done.returncode == 0, done.stderr
    holder = parsed(seen)
    assert holder is not None
    assert holder.run != dead.run


def test_a_lock_of_another_format_is_refused(folder: Path) -> None:
    locked(folder, '{"format": 9}\n')
    done, seen = ran(folder, "-y")
    assert (done.returncode, seen) == (1, "")
    assert "another version of Lockstep wrote" in done.stderr


def test_a_head_that_cannot_be_locked_is_said_and_the_run_goes_on(folder: Path) -> None:
    (folder / "run").touch()
    done, _ = ran(folder, "-y")
    assert "@local has no lock, because " in done.stderr
    assert "A run that another machine starts meanwhile is not noticed" in done.stderr
    assert "--> Results:" in done.stderr


def test_unlock_says_who_had_the_lock_and_empties_it(folder: Path) -> None:
    locked(folder, ELSEWHERE.text + "\n")
    deploy = (
        "from pyinfra import host\nfrom lockstep.roles.operations import run\n"
        f"run.FOLDER = '{folder}/run'\n"
        "from lockstep.roles.steps import unlock\nunlock.apply(plan=host.data.plan)\n"
    )
    done = pyinfra(folder, deploy, "--dry", inventory=INVENTORY)
    assert parsed((folder / "run/lock").read_text()) == ELSEWHERE
    done = pyinfra(folder, deploy, "-y", inventory=INVENTORY)
    assert done.returncode == 0, done.stderr
    assert f"by        ann on elsewhere, process {ELSEWHERE.pid}" in done.stderr
    assert (folder / "run/lock").read_text() == ""
    done = pyinfra(folder, deploy, "-y", "-v", inventory=INVENTORY)
    assert "no run has locked" in done.stderr


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("--data password=x --data=roles=munge", "--data ... --data=roles=munge"),
        ("--ssh-password x --dry", "--ssh-password ... --dry"),
        ("--ssh-key-password=x --data", "--ssh-key-password=... --data ..."),
    ],
)
def test_no_secret_of_the_command_line_is_shown(
    monkeypatch: pytest.MonkeyPatch, given: str, shown: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["pyinfra", *given.split()])
    assert run.command_line() == f"pyinfra {shown}"


def test_the_commit_of_the_site_is_the_one_of_its_repository(tmp_path: Path) -> None:
    inventory = tmp_path / "prod.py"
    inventory.touch()
    assert commit_of(str(inventory)) == ""
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "one")):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    clean = commit_of(str(inventory))
    assert len(clean) == 12
    inventory.write_text("changed")
    assert commit_of(str(inventory)) == f"{clean}+"


def test_the_holder_is_one_line_of_ascii() -> None:
    text = this_run("pyinfra 'ä\nb'").text
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text)["command"] == "pyinfra 'ä\nb'"


def test_the_time_of_readings_is_not_the_time_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that hangs keeps its readers for longer than the lock may take."""
    steps: list[str] = []
    record = SimpleNamespace(settle=lambda: steps.append("settled"), only_reading=nullcontext)
    monkeypatch.setattr(run, "record_of", lambda head: record)

    def say(script: str, **further: Any) -> tuple[bool, Any]:
        steps.append("asked")
        return True, SimpleNamespace(stdout_lines=["free"])

    talk: Any = SimpleNamespace(say=say)
    keeper: Any = SimpleNamespace(_head="head", _holder=SimpleNamespace(text="me"))
    assert run.Run._say(keeper, talk, "echo", "") == "free"
    assert steps == ["settled", "asked"]
