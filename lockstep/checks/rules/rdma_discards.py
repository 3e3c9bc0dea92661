"""The RDMA ports discard few packets.

Why      A port that cannot send in time throws packets away: the fabric behind it is blocked.
Blind    Adapters whose driver does not count this; what happened before the first record of this
         boot.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._rdma import UNREAD_WITH_COUNT, has_rdma, of_the_fabric
from lockstep.report import Severity

READING = "rdma.discards"

RULE = Rule(
    id="rdma.discards",
    title="few packets that RDMA ports discard",
    reading=READING,
    look=lambda view: of_the_fabric(view, READING),
    kind=Kind.GROWTH,
    per_hour=100.0,
    show=lambda value: f"{value} discards",
    severity=Severity.WARNING,
    applies=has_rdma,
    repair="look at the switch port of {device} of {node}, and at what blocks the way behind it",
    explained_by=(*UNREAD_WITH_COUNT, Cause("rdma.link_downed", same_device=True)),
    source="InfiniBand Architecture Specification, PortCounters.PortXmitDiscards",
)
