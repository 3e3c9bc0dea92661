"""Runs a command and measures the cost of all of its processes.

    python -m benchmarks.speed.meter FILE COMMAND...

Writes the cost to FILE as JSON. The processor time of processes that outlive the command (ssh
masters) counts as well: the meter adopts them, ends them and waits for them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from benchmarks.speed.paths import ROOT

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY_S = 0.1
MERCY_S = 10.0
"""Seconds that a process may take to end before it is killed."""
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """Cost of one command on the machine that runs it."""

    status: int
    wall_s: float
    cpu_s: float
    """User and system time of all its processes."""
    peak_mib: float
    """Peak resident memory of all processes, sampled ten times per second."""


def metered(argv: list[str]) -> Cost:
    """Run a command and wait for all children; must run in a separate process."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began, peak = time.monotonic(), 0
    with subprocess.Popen(argv) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(resident, below(os.getpid()))))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY_S)
        wall_s = time.monotonic() - began
    end_below(os.getpid())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(process.returncode, wall_s, used.ru_utime + used.ru_stime, peak / 2**20)


def cost(
    argv: Sequence[str],
    written: Path,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    within_s: float | None = None,
    *,
    stdout: IO[str],
    stderr: IO[str] | int,
) -> Cost:
    """Run a command in a separate process; return when all of its processes have ended.

    Args:
        argv: the command.
        written: file for the cost.
        prefix: command prefix for the meter.
        environment: additions to the environment.
        within_s: time limit in seconds; None: no limit.
        stdout: file for the output.
        stderr: as for ``subprocess.Popen``.

    Raises:
        subprocess.TimeoutExpired: the command took longer than ``within_s``.
    """
    written.unlink(missing_ok=True)
    words = [*prefix, sys.executable, "-m", "benchmarks.speed.meter", str(written), *argv]
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
    ) as process:
        try:
            process.wait(within_s)
        finally:
            end_below(process.pid)
    return Cost(**json.loads(written.read_text(encoding="utf-8")))


def below(pid: int) -> list[int]:
    """Return all descendants of a process."""
    found = []
    with contextlib.suppress(OSError):  # the process has just ended
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, listed.read_text().split()):
                found += [child, *below(child)]
    return found


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0


def end_below(pid: int) -> None:
    """End all descendants of a process."""
    until = time.monotonic() + MERCY_S
    while left := below(pid):
        how = signal.SIGTERM if time.monotonic() < until else signal.SIGKILL
        for one in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, how)
        if pid == os.getpid():  # otherwise their parent waits for them
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        time.sleep(LOOK_EVERY_S / 10)


def main(words: list[str]) -> int:
    """Run the command; return its exit status."""
    # Ctrl-C and SIGHUP are for the command: wait until it has ended, then end its remaining
    # processes. The command does not inherit handlers, but would inherit ignored signals.
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: None)
    used = metered(words[1:])
    Path(words[0]).write_text(json.dumps(asdict(used)), encoding="utf-8")
    return used.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
