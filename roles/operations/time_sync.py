"""Operations of the role time_sync."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host

from lockstep.facts.clock import ClockOffset
from lockstep.plan import NodePlan
from lockstep.roles.operations.operation import operation

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


def gate(plan: NodePlan) -> None:
    """Wait for the clock: what is set up before this does not need it."""
    clock_is_right(
        name="Gate: the clock is right",
        reference=plan.time.reference,
        max_offset_s=plan.spec.time.max_offset_s,
    )
