"""Commands that ``lab run`` starts in a machine."""

import subprocess
import sys

import pytest


def outcome(script: str) -> int:
    program = "import os, sys; from lab.processes import run_in_machine; " + (
        "sys.exit(run_in_machine(['sh', '-c', sys.argv[1]], os.environ))"
    )
    return subprocess.run([sys.executable, "-c", program, script], timeout=20).returncode


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 3", 3),
        ("kill -TERM $$", 143),
        # nsenter(1) does this when systemd-shutdown(8) stops all processes of the machine.
        ("kill -STOP $$; exit 4", 4),
    ],
)
def test_a_command_that_stops_itself_is_continued(script: str, status: int) -> None:
    assert outcome(script) == status
