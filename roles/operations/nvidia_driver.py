"""Operations of the role nvidia_driver."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host

from lockstep.facts.gpus import Boards, Gpus, OlderInitramfs
from lockstep.facts.reading import ask
from lockstep.facts.services import service_state
from lockstep.files import paths
from lockstep.plan import NodePlan
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.modules import built, loaded
from lockstep.roles.operations.operation import operation


@operation()
def initramfs(files: tuple[str, ...]) -> Generator[str, None, None]:
    """Make the initramfs of every kernel anew when a file that belongs into it is younger.

    Args:
        files: configuration of modules; without it in the initramfs, nouveau loads from there.
    """
    if files and host.get_fact(OlderInitramfs, files=files):
        yield "update-initramfs -u -k all"
    else:
        host.noop("the initramfs has the module options")


@operation()
def idle_units(units: tuple[str, ...]) -> Generator[str, None, None]:
    """Stop and disable units for which this node has no hardware.

    Stopped only while no process is on a board: if it is the description that is wrong, a fabric
    manager that ends takes all CUDA programs with it.

    Args:
        units: canonical names.
    """
    right = True
    boards = host.get_fact(Gpus) if units else Boards()
    free = boards.answered and not any(board.busy for board in boards.every)
    for unit in units:
        state = ask(host, service_state(unit))
        if state.active in ("active", "activating", "reloading") or state.enabled == "enabled":
            right = False
            if not free:
                host.log(
                    f"{unit}: disabled and left running: the GPUs are in use, or were not read"
                )
            yield f"systemctl disable {'--now ' if free else ''}{unit}"
    if right:
        host.noop("no unit runs without its hardware")


def apply(plan: NodePlan) -> None:
    """Configure it; the packages are there already."""
    put_files(plan, "nvidia_driver")
    initramfs(
        name="Initramfs",
        files=tuple(path for path in paths(plan, "nvidia_driver") if "/modprobe.d/" in path),
    )
    if plan.driver is not None and plan.nvidia is not None and plan.nvidia.load_modules:
        built(name="Kernel modules", driver=plan.driver)
        loaded(name="Load", driver=plan.driver, modules=plan.nvidia.load_modules)
    idle_units(name="Units without hardware", units=plan.forbidden_units)
    keep_units(plan, "nvidia_driver")
