"""The boards' own processor runs the driver's firmware where that is the default.

Why      Without it (NVreg_EnableGpuFirmware=0) the driver works otherwise, and the open modules
         not at all.
Blind    Firmware of another version: it comes with the driver's packages.
"""

from lockstep.checks.rule import REBOOT_BY_SLURM, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, supported, up_to
from lockstep.report import Severity

READING, DEFAULT = "gpu.gsp.current", "gpu.gsp.default"

RULE = Rule(
    id="gpu.gsp",
    title="GSP firmware is used where it is the default",
    reading=READING,
    look=up_to(READING, DEFAULT),
    devices=DEVICES,
    pick=supported,
    device=DEFAULT,
    show=lambda mode: f"GSP {mode}",
    severity=Severity.WARNING,
    applies=asks(READING, DEFAULT),
    repair="look for NVreg_EnableGpuFirmware in /etc/modprobe.d and the kernel's command line of "
    f"{{node}}, take it out, then {REBOOT_BY_SLURM}",
    explained_by=UNREAD_WITH_COUNT,
    owner="nvidia_driver",
    source="NVIDIA driver README, GSP firmware; gsp.mode.default",
)
