"""Operations of the role time_sync."""

from __future__ import annotations

from lockstep.facts.clock import LOST_AFTER_S, LOST_INTERVALS, OWN_CLOCK, clock_offset
from lockstep.plan import NodePlan
from lockstep.roles.operations.operation import CommandsOrReason, ask, operation

WAIT_TRIES = 90
"""Number of tries, one per second; a new chronyd is in sync about 10 s after its first samples."""

ASK_NOW = "burst 4/4"
"""chronyc(1): four good measurements of each server, of at most four."""

HEARD = (
    "chronyc -n -c tracking | "
    f"awk -F, -v own={OWN_CLOCK} -v least={LOST_AFTER_S:.0f} -v times={LOST_INTERVALS} "
    '-v now="$(date +%s)" \'{ if (times * $13 > least) least = times * $13 } '
    '$1 != own && now - $4 > least { printf "chronyd used its last measurement %d s ago: no server '
    'answers. Next: run chronyc sources on this node\\n", now - $4 >"/dev/stderr"; exit 1 }\''
)
"""Command that fails if no server has answered for a long time, which waitsync does not notice."""


@operation()
def clock_is_right(reference: bool, max_offset_s: float) -> CommandsOrReason:
    """Wait until the clock is close enough to its source; fail if that takes too long.

    Args:
        reference: True if the node is the cluster's time source and follows no server.
        max_offset_s: the largest accepted offset of the clock, in seconds.
    """
    if reference:
        return "this node is the cluster's time source"
    offset_s = ask(clock_offset())
    if offset_s is None or not abs(offset_s) <= max_offset_s:  # not a number: wait
        # A chronyd that ran without a server asks less and less often, so it is told to ask now.
        # chronyc(1): waitsync [max-tries [max-correction [max-skew [interval]]]]; 0 = no limit.
        yield f"chronyc {ASK_NOW} && chronyc waitsync {WAIT_TRIES} {max_offset_s} 0 1 && {HEARD}"
    return "the clock follows its source"


def gate(plan: NodePlan) -> None:
    """Wait until the clock is right; the roles before this gate do not need a correct clock."""
    clock_is_right(
        name="Gate: the clock is right",
        reference=plan.time.reference,
        max_offset_s=plan.spec.time.max_offset_s,
    )
