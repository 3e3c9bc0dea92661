"""The links of the RDMA ports do not break.

Why      Every break ends the jobs that use the port, or costs them seconds.
Blind    Adapters whose driver does not count this; what happened before the first record of this
         boot.
"""

from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._rdma import UNREAD_WITH_COUNT, has_rdma, of_the_fabric

READING = "rdma.link_downed"

RULE = Rule(
    id="rdma.link_downed",
    title="RDMA links stay up",
    reading=READING,
    look=lambda view: of_the_fabric(view, READING),
    kind=Kind.GROWTH,
    show=lambda value: f"{value} times down",
    applies=has_rdma,
    repair="in {node}: clean or replace cable and transceiver of {device}, look at the switch port",
    explained_by=(*UNREAD_WITH_COUNT,),
    source="InfiniBand Architecture Specification, PortCounters.LinkDownedCounter",
)
