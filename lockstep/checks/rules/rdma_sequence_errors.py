"""The RDMA ports see few gaps in the order of packets.

Why      A gap is a lost packet: all that follows is sent again.
Blind    Adapters whose driver does not count this; what happened before the first record of this
         boot. out_of_sequence is not counted: with adaptive routing it is normal.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._rdma import UNREAD_WITH_COUNT, has_rdma, of_the_fabric
from lockstep.report import Severity

READING = "rdma.sequence_errors"

RULE = Rule(
    id="rdma.sequence_errors",
    title="few gaps in what RDMA ports receive",
    reading=READING,
    look=lambda view: of_the_fabric(view, READING),
    kind=Kind.GROWTH,
    per_hour=1000.0,
    show=lambda value: f"{value} gaps",
    severity=Severity.WARNING,
    applies=has_rdma,
    repair="on {node}: compare rdma.errors, PFC and adaptive routing of {device} with its peers",
    explained_by=(
        *UNREAD_WITH_COUNT,
        Cause("rdma.link_downed", same_device=True),
        Cause("rdma.errors", same_device=True),
    ),
    source="NVIDIA, understanding mlx5 Linux counters (packet_seq_err, implied_nak_seq_err)",
)
