"""Operations of the role nvidia_driver."""

from __future__ import annotations

import re

from pyinfra import host

from lockstep.facts.boot import initramfs_is_due
from lockstep.facts.driver import NOUVEAU, boot_kernels, has_module, loaded_driver
from lockstep.facts.gpus import GpuStates, gpu_states
from lockstep.facts.packages import package_state
from lockstep.facts.services import service_state
from lockstep.facts.signing import module_trust
from lockstep.fast import limits
from lockstep.plan import NodePlan
from lockstep.plan.driver import Driver
from lockstep.plan.signing import Signing, signing
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.operation import Commands, CommandsOrReason, ask, operation
from lockstep.roles.operations.packages import SAY_UNBUILT, wrong

IN_INITRAMFS = re.compile(r"/(modprobe|dracut\.conf)\.d/")
"""Paths of files that decide what an initramfs contains."""


@operation("the initramfs has the module options", limits.LONG_S)
def initramfs(files: tuple[str, ...], rebuild: str) -> Commands:
    """Rebuild every initramfs if that of the running kernel is older than a file it must contain.

    Args:
        files: the module options; an initramfs without them loads nouveau early during boot.
        rebuild: the command that rebuilds them.
    """
    if bool(files) and ask(initramfs_is_due(files)):
        yield rebuild


@operation(limit_s=limits.LONG_S)
def built(driver: Driver) -> CommandsOrReason:
    """Have DKMS build the planned module for the running and the next kernel if they lack it.

    Args:
        driver: the planned driver. If a different one is installed, the rollout replaces it.
    """
    names = tuple(driver.packages)
    if wrong(ask(package_state(names)), names, driver.packages):
        return "the rollout (deploys/reboot.py) changes the driver's packages"
    for kernel in driver.lacking(ask(boot_kernels()).every):
        yield (
            f"dkms autoinstall -k {kernel.release} && "
            f"{has_module(kernel.release, driver.version)} || {{ "
            f'echo "dkms built no module {driver.version} for kernel {kernel.release}" >&2; '
            f"{SAY_UNBUILT}; exit 1; }}"
        )
    return "the kernels have the driver's module"


@operation()
def loaded(
    driver: Driver, modules: tuple[str, ...], key: Signing | None = None
) -> CommandsOrReason:
    """Load the driver's modules in order, unless a different driver is loaded.

    Args:
        driver: the planned driver. If a different one is loaded, it stays until the next boot.
        modules: the module names for modprobe(8), in load order.
        key: the key that signs the modules; None if no key is declared.
    """
    present = ask(loaded_driver())
    if present.version not in ("", driver.version):
        return f"driver {present.version} stays loaded until the next boot (deploys/reboot.py)"
    if not present.version and NOUVEAU in present.modules:
        # Not a failure: the rollout can reboot this node only after the rest of the deploy.
        host.log("nouveau uses the GPUs until the node boots without it (deploys/reboot.py)")
        return "the driver's modules cannot be loaded until the node boots without nouveau"
    missing = [name for name in modules if name.replace("-", "_") not in present.modules]
    if missing and key is not None and ask(module_trust()).refuses(key.certificate):
        # Not a failure: the certificate must be on the node before a person can enrol it.
        host.log(
            f"{', '.join(missing)}: not loaded, because Secure Boot is on and the kernel does not "
            "trust the key of software.module_signing. Next: on the node's console, "
            f"{key.enrolment}; then deploy the node again"
        )
        return "the driver's modules cannot be loaded until the certificate is enrolled"
    for name in missing:
        yield f"modprobe {name}"
    return "the driver's modules are loaded"


@operation("the units that the node does not need are stopped and disabled")
def idle_units(units: tuple[str, ...]) -> Commands:
    """Stop and disable units whose hardware is missing or whose feature is turned off.

    They are stopped only while no process is using a GPU: if the description is wrong, stopping
    the fabric manager would end all CUDA programs.

    Args:
        units: the canonical names of the units.
    """
    gpus = ask(gpu_states()) if units else GpuStates()
    free = gpus.answered and not any(gpu.busy for gpu in gpus.every)
    for unit in units:
        state = ask(service_state(unit))
        if state.active in ("active", "activating", "reloading") or state.enabled == "enabled":
            if not free:
                host.log(
                    f"{unit}: disabled but not stopped, as the GPUs are in use or could not be read"
                )
            yield f"systemctl disable {'--now ' if free else ''}{unit}"


def apply(plan: NodePlan) -> None:
    """Configure the driver; its packages are already installed."""
    put_files(plan, "nvidia_driver")
    initramfs(
        name="Initramfs",
        files=tuple(
            path for path in plan.system.paths("nvidia_driver") if IN_INITRAMFS.search(path)
        ),
        rebuild=plan.release.rebuild_initramfs,
    )
    if plan.software.driver is not None and plan.nvidia is not None and plan.nvidia.load_modules:
        built(name="Kernel modules", driver=plan.software.driver)
        loaded(
            name="Load",
            driver=plan.software.driver,
            modules=plan.nvidia.load_modules,
            key=signing(plan),
        )
    idle_units(name="Units that are not needed", units=plan.system.forbidden_units)
    keep_units(plan, "nvidia_driver")
