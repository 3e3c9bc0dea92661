"""The RDMA devices of a hardware class have the same firmware.

Why      Firmware decides congestion control and retransmission: a mixed fabric is slow in ways
         that no single node shows.
Blind    A firmware that is equally old everywhere.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
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

READING = "rdma.firmware"

RULE = Rule(
    id="rdma.firmware",
    title="one firmware of the RDMA devices per hardware class",
    reading=READING,
    kind=Kind.MULTISET,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    show=counted,
    detail=lambda view, device: device_by_device(view, READING),
    severity=Severity.WARNING,
    applies=has_rdma,
    repair_peers="have the firmware of the peers ({expected}) flashed on the device of {node} that "
    "the detail shows, then reset it",
    explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES, Cause("rdma.board")),
    source="kernel documentation, ABI/stable/sysfs-class-infiniband",
)
