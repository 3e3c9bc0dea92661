"""The RDMA ports wait for few acknowledgements in vain.

Why      Each one is a time-out of a whole connection: packets are lost, in one direction at least.
Blind    Adapters whose driver does not count this; what happened before the first record of this
         boot. A peer that went down causes them as well.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._rdma import UNREAD_WITH_COUNT, has_rdma, of_the_fabric
from lockstep.report import Severity

READING = "rdma.ack_timeouts"

RULE = Rule(
    id="rdma.ack_timeouts",
    title="few acknowledgements that RDMA ports miss",
    reading=READING,
    look=lambda view: of_the_fabric(view, READING),
    kind=Kind.GROWTH,
    per_hour=100.0,
    show=lambda value: f"{value} time-outs",
    severity=Severity.WARNING,
    applies=has_rdma,
    repair="on {node}: compare rdma.errors and the priorities of {device} with its peers, "
    "then the switch",
    explained_by=(
        *UNREAD_WITH_COUNT,
        Cause("rdma.link_downed", same_device=True),
        Cause("rdma.errors", same_device=True),
    ),
    source="NVIDIA, understanding mlx5 Linux counters (local_ack_timeout_err)",
)
