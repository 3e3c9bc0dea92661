"""The RDMA devices of a hardware class are of the same make.

Why      A replaced adapter of another type has other limits, and takes other firmware.
Blind    Adapters whose driver gives no board id: they are compared as equal.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._rdma import (
    DEVICES,
    FOLLOWS_NAMES,
    UNREAD_WITH_COUNT,
    counted,
    device_by_device,
    has_rdma,
    judged,
)
from lockstep.report import Severity

READING = "rdma.board"

RULE = Rule(
    id="rdma.board",
    title="one make of the RDMA devices per hardware class",
    reading=READING,
    kind=Kind.MULTISET,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    show=counted,
    detail=lambda view, device: device_by_device(view, READING),
    severity=Severity.WARNING,
    applies=has_rdma,
    repair_peers="replace the device of {node} that the detail shows, or give the node a hardware "
    "class of its own",
    explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES),
    source="kernel documentation, ABI/stable/sysfs-class-infiniband (board_id)",
)
