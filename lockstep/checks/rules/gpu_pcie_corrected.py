"""Links of boards, and those above them, seldom have to repeat a transfer.

Why      Each is a transfer that was repeated: a cable, a riser or a seat that is about to fail.
Blind    Machines whose firmware keeps these errors to itself; the first record of a boot.
"""

from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_PCI, on_bus, same_board
from lockstep.report import Severity

RULE = Rule(
    id="gpu.pcie_corrected",
    title="correctable errors of PCIe links stay rare",
    reading="gpu.pci.correctable",
    kind=Kind.GROWTH,
    per_hour=10.0,
    severity=Severity.WARNING,
    applies=on_bus,
    repair="drain {node}, reseat what is at {device}; when errors go on, have it replaced",
    explained_by=(*UNREAD_WITH_PCI, *same_board("gpu.pcie_uncorrected", "gpu.pcie_fatal")),
    source="kernel documentation, ABI/testing/sysfs-bus-pci-devices-aer_stats; our own tolerance",
)
