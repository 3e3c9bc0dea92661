"""Operations that have the driver's kernel modules built, and loaded where none is."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host

from lockstep.facts.gpus import LoadedDriver
from lockstep.facts.kernels import Kernels, LoadedModules, has_module
from lockstep.facts.packages import package_state
from lockstep.facts.reading import ask
from lockstep.plan.driver import Driver
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.packages import SAY_UNBUILT, wrong

NOUVEAU = "nouveau"


@operation()
def built(driver: Driver) -> Generator[str, None, None]:
    """Have DKMS build the planned module for each kernel that counts and lacks it.

    Args:
        driver: as planned; another one that is installed is left to the rollout.
    """
    names = tuple(driver.packages)
    if wrong(ask(host, package_state(names)), names, driver.packages):
        host.noop("the packages of the driver wait for the rollout")
        return
    lacking = driver.lacking(host.get_fact(Kernels).every)
    for kernel in lacking:
        yield (
            f"dkms autoinstall -k {kernel.release} && "
            f"{has_module(kernel.release, driver.version)} || {{ "
            f'echo "no module {driver.version} for kernel {kernel.release}" >&2; '
            f"{SAY_UNBUILT}; exit 1; }}"
        )
    if not lacking:
        host.noop("the kernels have the driver's module")


@operation()
def loaded(driver: Driver, modules: tuple[str, ...]) -> Generator[str, None, None]:
    """Load the driver's modules where no driver is loaded, in their order.

    Args:
        driver: as planned; another one that is loaded goes with the next boot.
        modules: as modprobe(8) takes them.
    """
    version = host.get_fact(LoadedDriver)
    present = host.get_fact(LoadedModules, names=(NOUVEAU, *modules))
    if version not in ("", driver.version):
        host.noop(f"driver {version} is loaded until the next boot (deploys/reboot.py)")
        return
    if not version and NOUVEAU in present:
        # No failure: the rest of the deploy is what lets the rollout boot this node.
        host.log("nouveau holds the boards until a boot without it: deploys/reboot.py")
        host.noop("the driver's modules wait for a boot without nouveau")
        return
    missing = [name for name in modules if name not in present]
    for name in missing:
        yield f"modprobe {name}"
    if not missing:
        host.noop("the driver's modules are loaded")
