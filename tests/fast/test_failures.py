"""Over real ssh: a command over its limit fails its node alone; the end of a run lists failures."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.fast.failures import listed
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
"""
"""Two seconds for an operation, 12 for packages."""
DEPLOY = """\
from pyinfra import host
from lockstep.fast import limits
from lockstep.roles.operations.operation import operation
from lockstep.roles.steps.barrier import reached

@operation()
def short():
    yield SHORT

@operation(limit_s=limits.LONG_S)
def packages():
    yield "sleep 4"

@operation()
def last():
    yield "touch FOLDER/$NODE.done"

short(name="Short")
packages(name="Packages")
reached(name="All")
last(name="Last")
"""
SHORT = (
    "case $NODE in hangs) echo $$ > FOLDER/pid; sleep 100;; fails*) echo no disk >&2; exit 3;; esac"
)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    found = Hosts(tmp_path_factory.mktemp("hosts"), ("hangs", "fails1", "fails2", "good"))
    try:
        yield found
    finally:
        found.end()


def run(hosts: Hosts, *options: str, fast: str = "1") -> tuple[str, int, set[str]]:
    for path in hosts.folder.glob("*.done"):
        path.unlink()
    deploy = f"SHORT = {SHORT!r}\n{DEPLOY}".replace("FOLDER", str(hosts.folder))
    began = hosts.begin(SCALED + hosts.inventory(), deploy, *options, LOCKSTEP_FAST=fast)
    try:
        said, _ = began.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        began.kill()
        pytest.fail(f"not over after 120 s:\n{began.communicate()[0]}")
    return said, began.returncode, {path.stem for path in hosts.folder.glob("*.done")}


class TestOverSsh:
    """Whole runs."""

    pytestmark = over_ssh

    @pytest.mark.parametrize(("options", "fast"), [((), "1"), ((), "0"), (("--no-wait",), "1")])
    def test_a_hanging_command_is_ended_and_its_node_is_named(
        self, hosts: Hosts, options: tuple[str, ...], fast: str
    ) -> None:
        """A healthy one that takes twice as long, but may, is not given up."""
        said, status, done = run(hosts, "-y", *options, fast=fast)
        assert (status, done) == (1, {"good"}), said
        assert "Traceback" not in said, said
        listing = said.partition("--> 3 nodes failed:")[2]
        assert re.search(
            r"^    hangs: Short: not done within its limit of 2 s; its command was ended .*Next: ",
            listing,
            re.MULTILINE,
        ), said
        assert "    2 nodes, fails[1-2]: Short: no disk. Next: " in listing, said
        hanging = int((hosts.folder / "pid").read_text())
        for _ in range(50):
            if not _runs(hanging):
                return
            time.sleep(0.1)
        pytest.fail("the command is still there")

    def test_a_limit_can_be_given_for_a_run(self, hosts: Hosts) -> None:
        said, status, _ = run(hosts, "-y", "--limit", "hangs", "--data", "_timeout=3")
        assert status == 1
        assert "not done within its limit of 3 s" in said, said

    def test_a_run_without_failures_lists_none(self, hosts: Hosts) -> None:
        said, status, done = run(hosts, "-y", "--limit", "good", "--no-wait")
        assert (status, done) == (0, {"good"}), said
        assert "failed:" not in said


def _runs(pid: int) -> bool:
    if not Path(f"/proc/{pid}").exists():
        return False
    os.kill(pid, 0)
    return True


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
