"""No RDMA device has the identity of another one.

Why      Two ports with one GUID answer for each other: connections break on both, at random.
Blind    Devices outside of this cluster on the same fabric.
"""

from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._rdma import DEVICES, UNREAD_WITH_COUNT, has_rdma

RULE = Rule(
    id="rdma.guid",
    title="every RDMA device has a GUID of its own",
    reading=DEVICES,
    devices="rdma.firmware",
    kind=Kind.UNIQUE,
    applies=has_rdma,
    repair="find out which of {node} was flashed with the GUID of another one and give it its own",
    explained_by=UNREAD_WITH_COUNT,
    source="InfiniBand Architecture Specification, volume 1, EUI-64",
)
