"""No link of a board, or above one, lost a transfer since the last record.

Why      A transfer was lost: a program got an error, or wrong data.
Blind    Machines whose firmware keeps these errors to itself; the first record of a boot.
"""

from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_PCI, on_bus, same_board

RULE = Rule(
    id="gpu.pcie_uncorrected",
    title="no uncorrectable error of a PCIe link",
    reading="gpu.pci.nonfatal",
    kind=Kind.GROWTH,
    applies=on_bus,
    repair="drain {node}, reseat what is at {device}; when errors go on, have it replaced",
    explained_by=(*UNREAD_WITH_PCI, *same_board("gpu.pcie_fatal")),
    source="kernel documentation, ABI/testing/sysfs-bus-pci-devices-aer_stats",
)
