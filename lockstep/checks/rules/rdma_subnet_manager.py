"""The RDMA ports follow the same subnet manager.

Why      A port that another manager configured is on another fabric, or about to be.
Blind    Whether the manager answers; its own settings, adaptive routing among them.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._rdma import DEVICES, UNREAD_WITH_COUNT, has_rdma, judged

READING = "rdma.sm_lid"

RULE = Rule(
    id="rdma.subnet_manager",
    title="RDMA ports follow the same subnet manager",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    show=lambda value: f"subnet manager at LID {value}",
    applies=has_rdma,
    repair="on {node}: sminfo; look at the cable of {device}, which may lead to another fabric",
    explained_by=(
        *UNREAD_WITH_COUNT,
        Cause("rdma.port_state", same_device=True),
        Cause("rdma.link_layer", same_device=True),
    ),
    source="kernel documentation, ABI/stable/sysfs-class-infiniband (sm_lid)",
)
