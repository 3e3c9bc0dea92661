"""The RDMA ports are in the same partitions.

Why      A port that lacks a partition, or is a limited member of it, cannot talk to its peers.
Blind    Partitions that the job asks for by itself.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._rdma import DEVICES, UNREAD_WITH_COUNT, has_rdma, judged

READING = "rdma.pkeys"

RULE = Rule(
    id="rdma.pkeys",
    title="RDMA ports are in the same partitions",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    applies=has_rdma,
    repair="have the subnet manager give {device} of {node} the partitions of its peers "
    "(partitions.conf)",
    explained_by=(
        *UNREAD_WITH_COUNT,
        Cause("rdma.port_state", same_device=True),
        Cause("rdma.link_layer", same_device=True),
    ),
    source="kernel documentation, ABI/stable/sysfs-class-infiniband (pkeys)",
)
