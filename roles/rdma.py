"""RDMA for users: the kernel's interfaces are there, and devices keep their declared names.

Owns     the udev rule that names RDMA devices. rdma-core's own rules load modules when a device
         appears, and the kernel gives /dev/infiniband its modes: nothing of ours repeats that.
Restart  nothing: a device that has another name already gets its own at the next boot.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from pyinfra import host
from pyinfra.api import operation

from lockstep.facts.kernel_files import KernelFiles
from lockstep.files import managed
from lockstep.plan import NodePlan, fabric
from roles._files import managed_files
from roles._role import role


@operation()
def loaded_modules(modules: Mapping[str, str]) -> Generator[str, None, None]:
    """Load the modules that are not there; a kernel without them fails here, and says so.

    Args:
        modules: module -> the file below /sys that shows it.
    """
    shown = host.get_fact(KernelFiles, patterns=tuple(modules.values())) if modules else {}
    missing = [name for name, path in modules.items() if path not in shown]
    if missing:
        yield f"modprobe -a {' '.join(missing)}"
    else:
        host.noop("the kernel has its RDMA interfaces")


@role("RDMA")
def apply(plan: NodePlan) -> None:
    """Write the rule before any device of ours can appear, then load what is missing."""
    managed_files(name="Files", files=managed(plan, None, "rdma"))
    loaded_modules(name="Modules", modules=fabric.modules(plan.hardware.hardware.nics))
