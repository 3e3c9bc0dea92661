"""Over real ssh: a command over its limit fails its node alone; the end of a run lists failures."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.fast.failures import Failures, listed
from tests.fast.sshd import SSHD, Hosts

over_ssh = [
    pytest.mark.integration,
    pytest.mark.skipif(SSHD is None, reason="needs sshd (openssh-server)"),
]

SCALED = """\
from lockstep.fast import limits as _limits, watch as _watch
_limits.SCALE = 1 / 300
_limits.KILL_AFTER_S, _limits.LONGER_HERE_S = 1.0, 2.0
_watch.EVERY_S = 1.0
from lockstep.pyinfra_internals import progress as _progress
_progress.AFTER_S = 0.5
"""
"""Two seconds for an operation, 12 for packages."""
DEPLOY = """\
from io import StringIO
from pyinfra import host
from pyinfra.api import FileUploadCommand
from lockstep.fast import limits
from lockstep.roles.operations.operation import operation
from lockstep.roles.steps.barrier import reached

@operation()
def short():
    yield SHORT

@operation()
def copies():
    if host.name == "copies":  # sftp-server waits until somebody reads from the pipe
        yield FileUploadCommand(StringIO("text"), "FOLDER/pipe")

@operation(limit_s=limits.LONG_S)
def packages():
    yield "sleep 2.5"

@operation()
def last():
    yield "touch FOLDER/$NODE.done"

short(name="Short")
copies(name="Copies")
packages(name="Packages")
reached(name="All")
last(name="Last")
"""
SHORT = (
    "case $NODE in hangs) echo $$ > FOLDER/pid; sleep 100;; fails*) echo no disk >&2; exit 3;; esac"
)


NAMES = ("copies", "hangs", "fails1", "fails2", "good")
RUNS = {"fast": ("1",), "plain": ("0",), "no-wait": ("1", "--no-wait")}
"""LOCKSTEP_FAST, and the options of pyinfra."""


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Hosts]]:
    """Hosts for each run: the runs mostly wait, and can do so together."""
    found: dict[str, Hosts] = {}
    try:
        for run in RUNS:
            found[run] = Hosts(tmp_path_factory.mktemp(run), NAMES)
            os.mkfifo(found[run].folder / "pipe")
        yield found
    finally:
        for hosts in found.values():
            os.close(os.open(hosts.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK))
            hosts.end()


def begin(hosts: Hosts, *options: str, fast: str = "1", **more: Any) -> subprocess.Popen[str]:
    for path in hosts.folder.glob("*.done"):
        path.unlink()
    deploy = f"SHORT = {SHORT!r}\n{DEPLOY}".replace("FOLDER", str(hosts.folder))
    more = {"PYINFRA_PROGRESS": "on", "LOCKSTEP_FAST": fast, **more}
    return hosts.begin(SCALED + hosts.inventory(), deploy, *options, **more)


def finish(hosts: Hosts, began: subprocess.Popen[str]) -> tuple[str, int, set[str]]:
    try:
        said, _ = began.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        began.kill()
        said = f"not over after 120 s:\n{began.communicate()[0]}"
    return said, began.returncode, {path.stem for path in hosts.folder.glob("*.done")}


class TestOverSsh:
    """Whole runs."""

    pytestmark = over_ssh

    def test_a_hanging_command_is_ended_and_its_node_is_named(self, sets: dict[str, Hosts]) -> None:
        """A healthy one that takes longer, but may, is not given up."""
        begun = {
            run: begin(sets[run], "-y", *options, fast=fast)
            for run, (fast, *options) in RUNS.items()
        }
        ended = {run: finish(sets[run], process) for run, process in begun.items()}
        for run, (said, status, done) in ended.items():
            assert (status, done) == (1, {"good"}), said
            assert "Traceback" not in said, said
            assert "\r" not in said
            assert "\x1b" not in said
            if run != "no-wait":
                progress = r"^    \d of 5 nodes done(, \d failed)?, \d+ s; waiting for \S*hangs$"
                assert re.search(progress, said, re.MULTILINE), said
            listing = said.partition("--> 4 nodes failed:")[2]
            assert re.search(
                r"^    hangs: Short: not done within its limit of 2 s; its command was ended .*"
                r"Next: ",
                listing,
                re.MULTILINE,
            ), said
            assert re.search(
                r"^    copies: Copies: a file was not copied within the limit of 2 s; .*Next: ",
                listing,
                re.MULTILINE,
            ), said
            assert "    2 nodes, fails[1-2]: Short: no disk. Next: " in listing, said
            assert _ends(int((sets[run].folder / "pid").read_text())), "the command is still there"

    def test_a_limit_can_be_given_for_a_run_and_a_run_without_failures_lists_none(
        self, sets: dict[str, Hosts]
    ) -> None:
        limited = begin(sets["fast"], "-y", "--limit", "hangs", "--data", "_timeout=3")
        healthy = begin(sets["no-wait"], "-y", "--limit", "good", "--no-wait")
        said, status, _ = finish(sets["fast"], limited)
        of_healthy = finish(sets["no-wait"], healthy)
        assert status == 1
        assert "not done within its limit of 3 s" in said, said
        said, status, done = of_healthy
        assert (status, done) == (0, {"good"}), said
        assert "failed:" not in said

    def test_a_terminal_has_a_line_that_changes(self, sets: dict[str, Hosts]) -> None:
        master, slave = pty.openpty()
        options = ("-y", "--limit", "good", "--limit", "fails1")
        more: dict[str, Any] = {"terminal": slave, "NO_COLOR": "", "TERM": "xterm"}
        began = begin(sets["plain"], *options, **more)
        os.close(slave)
        said = b""
        with suppress(OSError):  # EIO: the process has ended
            while piece := os.read(master, 65536):
                said += piece
        os.close(master)
        assert began.wait(20) == 1
        assert re.search(rb"    [-\\|/] 0 of 1 nodes done, \d+ s; waiting for good\r", said), said


def _ends(pid: int) -> bool:
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.1)
    return False


def test_equal_failures_are_one_line_whatever_addresses_they_contain() -> None:
    refused = "Could not connect (port 22 on {}). Next: start sshd on {}"
    why = {f"gpu{n}": refused.format(f"fd00::{n}", f"gpu{n}") for n in range(1, 38)}
    assert listed({**why, "head1": "sudo: no. Next: x"}) == [
        "--> 38 nodes failed:",
        "    37 nodes, gpu[1-37]: Could not connect (port 22 on fd00::1). Next: start sshd on gpu1 "
        "(as gpu1 says)",
        "    head1: sudo: no. Next: x",
    ]


def test_versions_are_no_addresses() -> None:
    assert len(listed({"a": "python 3.6 is too old", "b": "python 3.8 is too old"})) == 3


def test_the_last_error_of_a_host_can_be_quoted_without_its_next_step() -> None:
    state: Any = SimpleNamespace()
    head: Any = type("Host", (), {"name": "head1"})()  # hashable
    failures = Failures(state)
    assert failures.said(head) == "its error is above"
    failures.note(head, "head1 failed: no answer. Next: journalctl")
    assert failures.said(head) == "no answer"
