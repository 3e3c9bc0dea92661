"""Runs test suites, and lint at the same time; the last line has the totals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from scripts.testing.outcome import Outcome, closing_line, read
from scripts.testing.processes import ROOT, Job, TimeIsUp, run_together
from scripts.testing.suites import (
    COVERED,
    INTEGRATION,
    KERNEL,
    LAB,
    LINT,
    NESTED,
    SLOW,
    UNIT,
    Suite,
)

NICE = 10
"""Niceness of lint and unit tests: the lab's machines, whose tests mostly wait, come first."""

Stage = tuple[Suite | None, ...]
"""Suites that run at the same time; None is lint."""

MAKE_TEST: Stage = (None, UNIT, LAB)
WHOLE_RUNS: Stage = (INTEGRATION, NESTED)
"""They need no machines, and CI always runs them; with them, ``make test`` would take too long."""
TARGETS: dict[str, tuple[Stage, ...]] = {
    "unit": ((UNIT,),),
    "integration": (WHOLE_RUNS,),
    "coverage": ((COVERED,),),
    "test": (MAKE_TEST,),
    "slow": ((SLOW,),),
    "kernel": ((KERNEL,),),
    "all": (MAKE_TEST, WHOLE_RUNS, (SLOW,), (KERNEL,)),
}
"""Makefile target -> the stages that it runs, one after another."""

LEFT_OUT = {
    "unit": "whole runs of pyinfra and nested runs (make test-integration), lab tests (make test), "
    "slow ones (make test-slow), own kernels (make test-kernel)",
    "test": "whole runs of pyinfra and nested runs (make test-integration), slow lab tests "
    "(make test-slow), machines with own kernels (make test-kernel)",
}
"""Makefile target -> the tests that it leaves out."""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the program with an exception on SIGTERM and SIGHUP, too, so that labs are removed."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _machines(suites: Sequence[Suite]) -> Iterator[None]:
    """Install the programs that boot machines; at the end, remove all labs that tests left."""
    kernels = list(dict.fromkeys(suite.kernel for suite in suites if suite.kernel))
    if not kernels:
        yield
        return
    if os.geteuid() != 0:
        raise SystemExit(
            "ERROR these tests boot machines (systemd-nspawn or QEMU), which needs root\n"
            "  next  run them as root; without root: make test-unit"
        )
    python = str(ROOT / ".venv/bin/python")
    for kernel in kernels:
        setup = [python, "-m", "lab", "setup", "--kernel", kernel, "--tests"]
        if (status := subprocess.run(setup, cwd=ROOT, check=False).returncode) != 0:
            raise SystemExit(status)
    try:
        yield
    finally:
        subprocess.run([python, "tests/lab/remove_labs.py"], cwd=ROOT, check=False)


def _stage(stage: Stage, deadline: float | None) -> Outcome:
    if deadline is not None and time.monotonic() >= deadline:
        names = [suite.name if suite else "lint" for suite in stage]
        print(f"ERROR {', '.join(names)}: not started before the time limit", flush=True)
        return Outcome(errors=len(names))
    alone = len(stage) == 1
    jobs: list[tuple[Suite | None, Job]] = []
    for suite in stage:
        commands = LINT if suite is None else (suite.command(),)
        name = "lint" if suite is None else suite.name
        quiet = not alone and (suite is None or not suite.kernel)
        jobs.append((suite, Job(name, commands, NICE if quiet else 0)))
    try:
        run_together([job for _, job in jobs], deadline)
    except TimeIsUp as late:
        print(f"ERROR {late}: stopped at the time limit", flush=True)
    outcome = Outcome()
    for suite, job in jobs:
        if suite is None:
            for command in job.failed:
                print(f"ERROR lint: {command}", flush=True)
            outcome += Outcome(errors=len(job.failed) or int(job.status != 0))
        else:
            outcome += read(job.lines, job.status)
    return outcome


def run(stages: Sequence[Stage], deadline: float | None = None) -> Outcome:
    """Run stages one after another; later ones run even when an earlier one failed."""
    suites = [suite for stage in stages for suite in stage if suite is not None]
    outcome = Outcome()
    with _ended_by_signals(), _machines(suites):
        for stage in stages:
            outcome += _stage(stage, deadline)
    return outcome


def main(target: str) -> int:
    """Run a target; return its exit status."""
    if target not in TARGETS:
        print(f"ERROR {target}: no such target\n  allowed  {', '.join(TARGETS)}", file=sys.stderr)
        return 3
    began = time.monotonic()
    try:
        outcome = run(TARGETS[target])
    except KeyboardInterrupt:
        return 130
    if target in LEFT_OUT:
        print(f"left out: {LEFT_OUT[target]}", flush=True)
    print(closing_line(outcome, time.monotonic() - began), flush=True)
    return 0 if outcome.succeeded else 1
