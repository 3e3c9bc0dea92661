"""The driver nouveau does not hold the GPUs.

Why      It takes the boards at boot, and NVIDIA's driver does not get them.
Blind    Other drivers that take a board, such as vfio-pci.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import has_gpus
from lockstep.checks.rules._peers import part

RULE = Rule(
    id="kernel.nouveau",
    title="nouveau is not loaded",
    reading="kernel.modules",
    look=part("kernel.modules", "nouveau"),
    expected=lambda view: "absent",
    applies=has_gpus,
    repair="on {node}: blacklist nouveau in /etc/modprobe.d, update-initramfs -u, then reboot it",
    source="NVIDIA driver installation guide, disabling nouveau",
)
