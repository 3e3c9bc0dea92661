"""Operations of the role rdma."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from pyinfra import host

from lockstep.facts.kernel_files import kernel_files
from lockstep.facts.reading import ask
from lockstep.plan import NodePlan, fabric
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.operation import operation


@operation()
def loaded_modules(modules: Mapping[str, str]) -> Generator[str, None, None]:
    """Load the modules that are not there; a kernel without them fails here, and says so.

    Args:
        modules: module -> the file below /sys that shows it.
    """
    shown = ask(host, kernel_files(tuple(modules.values()))) if modules else {}
    missing = [name for name, path in modules.items() if path not in shown]
    if missing:
        yield f"modprobe -a {' '.join(missing)}"
    else:
        host.noop("the kernel has its RDMA interfaces")


def apply(plan: NodePlan) -> None:
    """Write the rule before any device of the node can appear, then load what is missing."""
    put_files(plan, "rdma")
    loaded_modules(name="Modules", modules=fabric.modules(plan.hardware.hardware.nics))
