"""Every link between a board and the root of its PCIe tree has its full width.

Why      A narrow or slow link above a switch is shared by boards and adapters, whose own links
         all look right.
Blind    The link of the board itself: gpu.pcie_width. What both of its ends cannot do.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_PCI, on_bus, up_to

READING, MOST = "gpu.pci.width", "gpu.pci.width_max"

RULE = Rule(
    id="gpu.pcie_path_width",
    title="links above the boards have their full width",
    reading=READING,
    look=up_to(READING, MOST),
    device=MOST,
    show=lambda value: f"x{value:g}",
    applies=on_bus,
    repair="drain {node} and power-cycle it; a link that stays so: riser, cable, switch board",
    explained_by=UNREAD_WITH_PCI,
    source="/sys/bus/pci/devices/*/current_link_width, max_link_width",
)
