"""Runs commands at the same time and prefixes each line of output with the name of its job."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STOPS_WITHIN_S = 120
"""A stopped run of lab tests first shuts down its machines."""


@dataclass
class Job:
    """One or more commands that run one after another, and their output."""

    name: str
    commands: Sequence[Sequence[str]]
    niceness: int = 0
    lines: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Commands whose exit status was not 0."""
    status: int = 1
    """0 after all commands succeeded; otherwise the exit status of the last one that failed."""


class TimeIsUp(Exception):
    """A job was still running at the deadline."""


def run_together(jobs: Sequence[Job], deadline: float | None = None) -> None:
    """Run jobs at the same time until all have ended.

    Args:
        jobs: what to run; output and status are kept in them.
        deadline: time of ``time.monotonic()`` at which running jobs are stopped.

    Raises:
        TimeIsUp: a job was still running at the deadline. It was stopped.
    """
    running: dict[str, subprocess.Popen[str]] = {}
    stopped = threading.Event()
    threads = [
        threading.Thread(target=_run, args=(job, running, stopped), name=job.name) for job in jobs
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                raise TimeIsUp(thread.name)
    except BaseException:
        stopped.set()
        _stop(list(running.values()))
        raise
    finally:
        for thread in threads:
            thread.join()


def _run(job: Job, running: dict[str, subprocess.Popen[str]], stopped: threading.Event) -> None:
    for command in job.commands:
        if stopped.is_set():
            return
        with subprocess.Popen(
            ["nice", "-n", str(job.niceness), *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # With its own process group, a job is stopped together with everything that it started.
            process_group=0,
        ) as process:
            running[job.name] = process
            if stopped.is_set():  # set between the test above and the start of the process
                _stop([process])
            assert process.stdout is not None
            for line in process.stdout:
                job.lines.append(line.rstrip("\n"))
                print(f"{job.name:6} | {line.rstrip()}", flush=True)
        if process.returncode != 0:
            job.failed.append(" ".join(command))
            job.status = process.returncode
    if not job.failed:
        job.status = 0


def _stop(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Interrupt the process groups as Ctrl-C does; kill those that are left after a while."""
    deadline = time.monotonic() + STOPS_WITHIN_S
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
    for process in processes:
        # A process that does not end in time is killed below.
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        # A group without processes no longer exists.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
