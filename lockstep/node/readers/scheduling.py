"""CPU affinity and priority of the probe, which must not slow down jobs."""

from __future__ import annotations

import os
from contextlib import suppress

FREE = os.sched_getaffinity(0)
"""The CPUs that this program was allowed to use when it started."""


def run_in_background(housekeeping: set[int], idle: bool = True) -> None:
    """Run on the housekeeping CPUs, and at idle priority, so that jobs are not slowed down.

    Commands started later inherit both. Idle priority includes idle I/O priority (ionice(1)).
    """
    with suppress(OSError):  # if this is forbidden, the node is read anyway
        if idle:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        if housekeeping & FREE:
            os.sched_setaffinity(0, housekeeping & FREE)


def run_like_a_job() -> None:
    """Undo ``run_in_background`` for this thread, so that it starts containers as a job would."""
    with suppress(OSError):  # then run_in_background failed as well
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, FREE)
