"""NVIDIA's driver: modules that are built and loaded, nouveau that is not, and persistenced.

Owns     module options and load order; modules for the kernel that runs and the one that boots
         next; nvidia-persistenced; and that no unit runs here for hardware that is not here.
Reboot   new options wait for one. Another version of an installed driver is the rollout's
         (deploys/reboot.py): packages, kernel module and library change together, under no job.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import PERSISTENCED
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.modules import built, loaded
from lockstep.roles.operations.nvidia_driver import idle_units, initramfs
from lockstep.roles.operations.service import service


@role("NVIDIA driver")
def apply(plan: NodePlan) -> None:
    """Configure it; the packages are there already."""
    if "nvidia_driver" not in plan.capabilities:
        return
    files = managed(plan, None, "nvidia_driver")
    managed_files(name="Files", files=files)
    initramfs(name="Initramfs", files=tuple(f.path for f in files if "/modprobe.d/" in f.path))
    if plan.driver is not None and plan.nvidia is not None and plan.nvidia.load_modules:
        built(name="Kernel modules", driver=plan.driver)
        loaded(name="Load", driver=plan.driver, modules=plan.nvidia.load_modules)
    idle_units(name="Units without hardware", units=plan.forbidden_units)
    if PERSISTENCED in plan.units:
        service(
            name="Persistence daemon", unit=PERSISTENCED, files=("/usr/bin/nvidia-persistenced",)
        )
