"""Transparent huge pages and CPU frequency of the running kernel, and at each boot.

Owns     the settings below /sys that the hardware class declares in ``kernel``. Its sysctl keys are
         in the file of os_settings, its kernel arguments in that of boot_loader.
Restart  nothing: the kernel takes them at once.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.kernel_files import running_kernel_files


@role("Kernel settings")
def apply(plan: NodePlan) -> None:
    """Write what each boot sets, then set it now."""
    managed_files(name="Files", files=managed(plan, None, "kernel"))
    running_kernel_files(name="Running kernel", files=plan.hardware.kernel_files)
