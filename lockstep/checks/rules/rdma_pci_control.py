"""The RDMA devices read and order alike on PCIe.

Why      With short read requests, or without relaxed ordering, an adapter does not reach its rate.
Blind    Ordering that a driver asks for by memory region.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_MACHINE
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

READING = "rdma.pci_control"

RULE = Rule(
    id="rdma.pci_control",
    title="PCIe settings of the RDMA devices are alike",
    reading=READING,
    kind=Kind.MULTISET,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    show=counted,
    detail=lambda view, device: device_by_device(view, READING),
    severity=Severity.WARNING,
    applies=has_rdma,
    repair="on {node}: compare the BIOS settings of PCIe, and what runs setpci at boot",
    explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES, Cause("rdma.board"), *OTHER_MACHINE),
    source="PCI Express Base Specification, Device Control register; linux/pci_regs.h",
)
