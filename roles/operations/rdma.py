"""Operations of the role rdma."""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.facts.settings import kernel_files
from lockstep.plan import NodePlan, fabric
from lockstep.roles.operations.operation import Commands, ask, operation


@operation("the RDMA kernel modules are loaded")
def loaded_modules(modules: Mapping[str, str]) -> Commands:
    """Load the modules that are not loaded; if the kernel lacks one, modprobe fails with a message.

    Args:
        modules: module -> a file in /sys that exists while the module is loaded.
    """
    shown = ask(kernel_files(tuple(modules.values()))) if modules else {}
    missing = [name for name, path in modules.items() if path not in shown]
    if missing:
        yield f"modprobe -a {' '.join(missing)}"


def afterwards(plan: NodePlan) -> None:
    """Load the RDMA modules; the udev rule is already in place when their devices appear."""
    loaded_modules(name="Modules", modules=fabric.modules(plan.hardware.hardware.nics))
