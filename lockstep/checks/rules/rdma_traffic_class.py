"""The RoCE ports mark their packets alike.

Why      Packets without the mark go through the switches in the wrong queue.
Blind    Marks that a job sets (NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS).
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._rdma import DEVICES, judged
from lockstep.checks.rules._roce import FOLLOWS_PORT, has_roce

READING = "rdma.traffic_class"

RULE = Rule(
    id="rdma.traffic_class",
    title="RoCE ports mark their packets alike",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    applies=has_roce,
    repair="on {node}: set traffic_class of {device} and default_roce_tos as on its peers, at boot",
    explained_by=FOLLOWS_PORT,
    source="NVIDIA OFED: tc/1/traffic_class; kernel documentation, ABI/testing/configfs-rdma_cm",
)
