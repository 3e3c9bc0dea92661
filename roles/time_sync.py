"""chrony on every node, and a gate before what needs the right time.

Owns     chrony's configuration and unit.
Gate     munge refuses credentials from a clock that is off (munged(8): 300 s), so a node whose
         clock does not follow fails there, and munge and Slurm are not reached. It stands as late
         as it may: chronyd's first samples take seconds, which other roles can use.
"""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation

from lockstep.facts.clock import ClockOffset
from lockstep.files import managed
from lockstep.plan import NodePlan
from roles._files import managed_files
from roles._role import role
from roles._service import service

WAIT_TRIES = 90
"""One per second: a fresh chronyd needs some ten seconds after its first samples."""


@operation()
def clock_is_right(reference: bool, max_offset_s: float) -> Generator[str, None, None]:
    """Wait until the clock follows its source within ``max_offset_s`` seconds, or fail.

    Args:
        reference: the node is the cluster's own reference and follows nobody.
        max_offset_s: remaining correction that is accepted, in seconds.
    """
    if reference:
        host.noop("this node is the cluster's reference clock")
        return
    offset_s = host.get_fact(ClockOffset)
    if offset_s is not None and abs(offset_s) <= max_offset_s:
        host.noop("the clock follows its source")
    else:
        # chronyc(1): waitsync [max-tries [max-correction [max-skew [interval]]]]; 0 = no limit.
        yield f"chronyc waitsync {WAIT_TRIES} {max_offset_s} 0 1"


@role("Time sync")
def apply(plan: NodePlan) -> None:
    """Configure chrony and run it."""
    if "time_sync" not in plan.capabilities:
        return
    files = managed(plan, None, "time_sync")
    managed_files(name="Files", files=files)
    service(
        name="chrony",
        unit="chrony.service",
        files=(*(f.path for f in files), "/usr/sbin/chronyd"),
    )


@role("Time sync")
def gate(plan: NodePlan) -> None:
    """Wait for the clock: what is set up before this does not need it."""
    if "time_sync" not in plan.capabilities:
        return
    clock_is_right(
        name="Gate: the clock is right",
        reference=plan.time.reference,
        max_offset_s=plan.spec.time.max_offset_s,
    )
