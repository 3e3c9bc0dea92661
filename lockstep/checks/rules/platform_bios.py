"""The machines of a hardware class have the same firmware.

Why      Firmware decides about power, memory, PCIe and idle states; one older BIOS is one slower
         node.
Blind    Settings of the firmware, as long as nothing that the kernel shows follows from them.
"""

from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._peers import joined

RULE = Rule(
    id="platform.bios",
    title="one BIOS per hardware class",
    reading="platform",
    look=joined("platform", "bios_vendor", "bios_version", "bios_date"),
    peers=Peers.CLASS,
    repair="drain {node}, flash the BIOS of its peers, compare its settings, reboot it",
    explained_by=(Cause("platform.product"),),
    source="SMBIOS 7.1, BIOS information; /sys/class/dmi/id",
)
