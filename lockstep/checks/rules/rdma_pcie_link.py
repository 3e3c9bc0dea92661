"""The RDMA devices sit on the full PCIe link.

Why      An adapter with half its lanes has the full rate on the wire and half of it into memory.
Blind    Links further up, behind a switch; a slot that is narrower than its adapter on purpose is
         no finding.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._rdma import DEVICES, UNREAD_WITH_COUNT, has_rdma, judged

READING = "rdma.pcie"

RULE = Rule(
    id="rdma.pcie_link",
    title="RDMA devices have their full PCIe link",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    device="rdma.pcie_most",
    applies=has_rdma,
    repair="drain {node}, reseat {device}; compare the slot's settings in the BIOS",
    explained_by=(*UNREAD_WITH_COUNT,),
    source="kernel documentation, ABI/testing/sysfs-bus-pci (current_link_speed, max_link_width)",
)
