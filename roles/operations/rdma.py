"""Operations of the role rdma."""

from __future__ import annotations

from collections.abc import Mapping

from pyinfra import host

from lockstep.facts.driver import rdma_driver_waits
from lockstep.facts.settings import kernel_files
from lockstep.plan import NodePlan, fabric
from lockstep.roles.operations.operation import Commands, ask, operation


@operation("the RDMA kernel modules are loaded")
def loaded_modules(modules: Mapping[str, str], declared: bool = False) -> Commands:
    """Load the modules that are not loaded; if the kernel lacks one, modprobe fails with a message.

    Modules of one build do not load beside those of another. So none is loaded while the driver on
    disk waits for the next boot, which loads all of them.

    Args:
        modules: module -> a file in /sys that exists while the module is loaded.
        declared: whether the description says which RDMA stack the node has.
    """
    shown = ask(kernel_files(tuple(modules.values()))) if modules else {}
    missing = [name for name, path in modules.items() if path not in shown]
    waiting = ask(rdma_driver_waits()) if declared else ""
    if waiting:
        host.log(f"the next boot loads {waiting} (deploys/reboot.py)")
    elif missing:
        yield f"modprobe -a {' '.join(missing)}"


def afterwards(plan: NodePlan) -> None:
    """Load the RDMA modules; the udev rule is already in place when their devices appear."""
    loaded_modules(
        name="Modules",
        modules=fabric.modules(plan.hardware.hardware.nics),
        declared=fabric.is_declared(plan),
    )
