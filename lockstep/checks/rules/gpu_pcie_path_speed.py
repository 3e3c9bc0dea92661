"""Every link between a board and the root of its PCIe tree has its full speed.

Why      A narrow or slow link above a switch is shared by boards and adapters, whose own links
         all look right.
Blind    The link of the board itself: gpu.pcie_generation_busy. What both of its ends cannot do.
"""

from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_PCI, on_bus, up_to

READING, MOST = "gpu.pci.speed", "gpu.pci.speed_max"

RULE = Rule(
    id="gpu.pcie_path_speed",
    title="links above the boards have their full speed",
    reading=READING,
    look=up_to(READING, MOST),
    device=MOST,
    show=lambda value: f"{value:g} GT/s",
    applies=on_bus,
    repair="drain {node} and power-cycle it; a link that stays so: riser, cable, switch board",
    explained_by=(*UNREAD_WITH_PCI, Cause("gpu.pcie_path_width", same_device=True)),
    source="/sys/bus/pci/devices/*/current_link_speed, max_link_speed",
)
