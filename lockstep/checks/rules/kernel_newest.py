"""The newest installed kernel is the running one.

Why      The next boot, of this node alone, brings another kernel: modules and speed change unseen.
Blind    Kernels of another flavour; a boot loader that was told to start an older one.
"""

from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.report import Severity

RULE = Rule(
    id="kernel.newest",
    title="the newest installed kernel is running",
    reading="kernel.release",
    device="kernel.newest",
    pending=lambda view, device: True,
    severity=Severity.WARNING,
    applies=own_kernel,
    repair_pending="reboot {node} when it is idle, or remove the kernel {expected}",
    explained_by=(Cause("kernel.release"),),
    source="uname(2); names of /boot/vmlinuz-*",
)
