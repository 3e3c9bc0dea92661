"""The RDMA ports see few errors of the link.

Why      A dirty or bent cable: each error is a packet that is sent again, at the worst moment.
Blind    Adapters whose driver does not count this; what happened before the first record of this
         boot. Counters that are full stand still.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._rdma import UNREAD_WITH_COUNT, has_rdma, of_the_fabric
from lockstep.report import Severity

READING = "rdma.errors"

RULE = Rule(
    id="rdma.errors",
    title="few errors of the RDMA links",
    reading=READING,
    look=lambda view: of_the_fabric(view, READING),
    kind=Kind.GROWTH,
    per_hour=10.0,
    show=lambda value: f"{value} errors",
    severity=Severity.WARNING,
    applies=has_rdma,
    repair="in {node}: clean or replace cable and transceiver of {device}",
    explained_by=(*UNREAD_WITH_COUNT, Cause("rdma.link_downed", same_device=True)),
    source="ibqueryerrors(8), its thresholds; kernel documentation, "
    "ABI/stable/sysfs-class-infiniband (counters)",
)
