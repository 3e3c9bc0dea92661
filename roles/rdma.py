"""RDMA for users: the kernel's interfaces are there, and devices keep their declared names.

Owns     the udev rule that names RDMA devices. rdma-core's own rules load modules when a device
         appears, and the kernel gives /dev/infiniband its modes: nothing of ours repeats that.
Restart  nothing: a device that has another name already gets its own at the next boot.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan, fabric
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.rdma import loaded_modules


@role("RDMA")
def apply(plan: NodePlan) -> None:
    """Write the rule before any device of ours can appear, then load what is missing."""
    managed_files(name="Files", files=managed(plan, None, "rdma"))
    loaded_modules(name="Modules", modules=fabric.modules(plan.hardware.hardware.nics))
