"""Where and how urgently the probe runs: away from the jobs."""

from __future__ import annotations

import os

FREE = os.sched_getaffinity(0)
"""The CPUs that this program was given, for what must not inherit its own."""


def stand_aside(housekeeping: set[int]) -> None:
    """Run where jobs do not, and only when nobody else would: jobs are not to notice us.

    Whatever is started inherits it; so does the I/O priority of a task that runs idle (ionice(1)).
    """
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        if housekeeping & FREE:
            os.sched_setaffinity(0, housekeeping & FREE)
    except OSError:  # a machine that forbids it: read all the same
        pass


def step_forward() -> None:
    """Undo that for this thread: what it starts is looked at as a job's would be."""
    try:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, FREE)
    except OSError:  # it could not stand aside either
        pass
