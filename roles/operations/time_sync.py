"""Operations of the role time_sync."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host

from lockstep.facts.clock import LOST_AFTER_S, LOST_INTERVALS, OWN_CLOCK, clock_offset
from lockstep.facts.reading import ask
from lockstep.plan import NodePlan
from lockstep.roles.operations.operation import operation

WAIT_TRIES = 90
"""One per second: a fresh chronyd needs some ten seconds after its first samples."""

HEARD = (
    "chronyc -n -c tracking | "
    f"awk -F, -v own={OWN_CLOCK} -v least={LOST_AFTER_S:.0f} -v times={LOST_INTERVALS} "
    '-v now="$(date +%s)" \'{ if (times * $13 > least) least = times * $13 } '
    '$1 != own && now - $4 > least { printf "chronyd used its last measurement %d s ago: its '
    'servers are lost. Next: chronyc sources on this node\\n", now - $4 >"/dev/stderr"; exit 1 }\''
)
"""Command that fails where the servers were not heard for long: waitsync does not see that."""


@operation()
def clock_is_right(reference: bool, max_offset_s: float) -> Generator[str, None, None]:
    """Wait until the clock follows its source within ``max_offset_s`` seconds, or fail.

    Args:
        reference: the node is the cluster's own reference and follows no server.
        max_offset_s: remaining correction that is accepted, in seconds.
    """
    if reference:
        host.noop("this node is the cluster's reference clock")
        return
    offset_s = ask(host, clock_offset())
    if offset_s is not None and abs(offset_s) <= max_offset_s:
        host.noop("the clock follows its source")
    else:
        # chronyc(1): waitsync [max-tries [max-correction [max-skew [interval]]]]; 0 = no limit.
        yield f"chronyc waitsync {WAIT_TRIES} {max_offset_s} 0 1 && {HEARD}"


def gate(plan: NodePlan) -> None:
    """Wait for the clock: what is set up before this does not need it."""
    clock_is_right(
        name="Gate: the clock is right",
        reference=plan.time.reference,
        max_offset_s=plan.spec.time.max_offset_s,
    )
