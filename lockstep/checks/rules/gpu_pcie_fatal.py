"""No link of a board, or above one, failed since the last record.

Why      The link itself failed and was trained anew, if it came back.
Blind    Machines whose firmware keeps these errors to itself; the first record of a boot.
"""

from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_PCI, on_bus

RULE = Rule(
    id="gpu.pcie_fatal",
    title="no fatal error of a PCIe link",
    reading="gpu.pci.fatal",
    kind=Kind.GROWTH,
    applies=on_bus,
    repair="drain {node}, reseat what is at {device}; when errors go on, have it replaced",
    explained_by=UNREAD_WITH_PCI,
    source="kernel documentation, ABI/testing/sysfs-bus-pci-devices-aer_stats",
)
