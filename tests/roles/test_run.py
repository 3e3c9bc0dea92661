"""A run of pyinfra's own command takes the lock of the cluster; this machine is the head."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.lock import Lock, file, parsed, this_run
from lockstep.roles.operations import run
from tests.plan.example import planned
from tests.test_pyinfra_assumptions import pyinfra

INVENTORY = """\
from tests.plan.example import planned
_plan = planned()
head = [("@local", {"plan": _plan.nodes["head1"]})]
worker = [("@fake/worker1", {"plan": _plan.nodes["worker1"], "fake_delay": 0})]
"""
DEPLOY = """\
from pyinfra import host
from lockstep.roles.operations import run
from lockstep.roles.operations.operation import operation
run.FOLDER = "HERE/run"

@operation()
def change():
    yield "cat HERE/run/lock >>HERE/seen; THEN"

run.begins(host.state, host.data.plan.cluster)
if host.name == "@local":
    change()
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


def test_a_run_that_fails_leaves_no_lock(folder: Path) -> None:
    done, seen = ran(folder, "-y", then="false")
    assert done.returncode == 1
    assert seen
    assert (folder / "run/lock").read_text() == ""
    assert file(planned().spec.name).read_text() == ""


def test_ctrl_c_leaves_no_lock(folder: Path) -> None:
    # The session of a shell gets the signal as a terminal sends it: pyinfra's process alone.
    _, seen = ran(folder, "-y", then="kill -INT $PPID; sleep 5")
    assert seen
    assert (folder / "run/lock").read_text() == ""
    assert file(planned().spec.name).read_text() == ""


@pytest.mark.parametrize("options", [("--dry",), ()])  # not confirmed: there is no Enter
def test_a_preview_takes_no_lock(folder: Path, options: tuple[str, ...]) -> None:
    _, seen = ran(folder, *options)
    assert seen == ""
    assert not (folder / "run").exists()
    assert not file(planned().spec.name).exists()


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


def test_the_holder_is_one_line_of_ascii() -> None:
    text = this_run("pyinfra 'ä\nb'").text
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text)["command"] == "pyinfra 'ä\nb'"
