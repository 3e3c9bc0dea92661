"""The lock of a cluster on this machine, and who counts as ended."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.lock import PARENT, Holder, Lock, Locked, parsed, this_run

ME = this_run("pyinfra -y prod.py deploys/cluster.py", {"SUDO_USER": "ann"})


def test_the_second_run_says_who_has_the_lock_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    first = Lock(path, ME)
    with pytest.raises(Locked) as refused:
        Lock(path, this_run("pyinfra -y prod.py deploys/worker.py"))
    lines = str(refused.value).splitlines()
    assert lines[0] == "another run is changing this cluster; nothing was changed"
    assert lines[1] == f"  by        ann on {ME.host}, process {ME.pid}"
    assert lines[3] == "  command   pyinfra -y prod.py deploys/cluster.py"
    assert lines[4].endswith(f"kill -INT {ME.pid}")
    assert path.stat().st_mode & 0o777 == 0o600
    first.release()
    first.release()
    Lock(path, ME).release()


def test_a_process_that_was_killed_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = (
        "import sys, time; from pathlib import Path; from lockstep.lock import Lock, this_run\n"
        "kept = Lock(Path(sys.argv[1]), this_run('killed')); print('locked', flush=True)\n"
        "time.sleep(60)"
    )
    words = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(Locked, match=f"process {other.pid}"):
            Lock(path, ME)
        other.kill()
    held = parsed(path.read_text())
    assert held is not None
    assert held.has_ended
    Lock(path, ME).release()


def test_a_child_of_the_holder_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Lock(tmp_path / "lock", ME)
    monkeypatch.setenv(PARENT, ME.run)
    Lock(tmp_path / "lock", this_run("child")).release()
    monkeypatch.setenv(PARENT, "another")
    with pytest.raises(Locked):
        Lock(tmp_path / "lock", this_run("child"))
    first.release()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Locked, match=r"file/lock: the cluster cannot be locked: File exists"):
        Lock(tmp_path / "file" / "lock", ME)


@pytest.mark.parametrize(
    ("changed", "ended"),
    [
        ({}, False),
        ({"started": "1"}, True),  # the number belongs to another process now
        ({"pid": 2**22 + 1}, True),  # more than the kernel gives out
        ({"boot": "another"}, True),  # this machine was rebooted
        ({"boot": ME.boot.split()[0] + " pid:[1]"}, False),  # a container: its PIDs are not seen
        ({"host": "elsewhere", "pid": 2**22 + 1}, False),
        ({"machine": "elsewhere", "pid": 2**22 + 1}, False),
        ({"machine": "", "pid": 2**22 + 1}, False),
    ],
)
def test_only_a_process_of_this_machine_is_known_to_have_ended(
    changed: dict[str, object], ended: bool
) -> None:
    here = dataclasses.replace(ME, machine="0" * 32)
    holder = dataclasses.replace(here, **changed)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lockstep.lock.this_run", lambda command: here)
        assert holder.has_ended is ended


def test_a_line_that_is_no_holder_is_none() -> None:
    assert [parsed(text) for text in ("", "{}", "[]", "7", "half of a li")] == [None] * 5
    assert parsed(ME.text) == ME
    assert isinstance(parsed(ME.text), Holder)
