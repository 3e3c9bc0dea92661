"""Questions about NVIDIA's driver: the loaded modules, and those on disk for each kernel."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.node.readers.driver import MODULES
from lockstep.node.readers.grub import RESCUE
from lockstep.node.readers.reading import ABSENT
from lockstep.plan.driver import BootKernels, Kernel
from lockstep.plan.fabric import DRIVER as RDMA_DRIVER
from lockstep.plan.fabric import waits_for_boot
from lockstep.question import Taken, question

NVIDIA, NOUVEAU = "nvidia", "nouveau"
KERNELS = "driver.kernels"


@dataclass(frozen=True)
class LoadedDriver:
    """The loaded kernel modules for GPUs."""

    modules: frozenset[str] = frozenset()
    """Names of NVIDIA's modules and of nouveau, spelled with "_" as in lsmod(8)."""
    version: str = ""
    """Version of NVIDIA's modules; "" if none is loaded."""
    flavour: str = ""
    """Flavour of NVIDIA's modules, ``open`` or ``proprietary``; "" if none is loaded."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameter -> value, for NVIDIA's loaded modules."""


@question("loaded driver", "driver.loaded", "driver.module", "driver.parameters")
def loaded_driver(taken: Taken) -> LoadedDriver:
    """Ask for the loaded driver and its parameters."""
    modules = frozenset(taken["driver.loaded"])
    if NVIDIA not in modules:
        return LoadedDriver(modules)
    version, flavour = (taken.item("driver.module", name) for name in ("version", "flavour"))
    return LoadedDriver(modules, version, flavour, taken["driver.parameters"])


@question("RDMA driver", "kernel.modules", "rdma.driver_on_disk")
def rdma_driver_waits(taken: Taken) -> str:
    """Ask which RDMA driver the next boot loads; "" if it is the loaded one, or none is loaded."""
    loaded = str(taken.item("kernel.modules", RDMA_DRIVER))
    on_disk = str(taken.item("rdma.driver_on_disk", "version"))
    waits = waits_for_boot(loaded, on_disk)
    return f"{RDMA_DRIVER} {on_disk}, instead of {loaded}" if waits else ""


@question("kernels", KERNELS, "kernel.next")
def boot_kernels(taken: Taken) -> BootKernels:
    """Ask for the running kernel and the kernels that GRUB may boot next."""
    shown = {release: taken.item(KERNELS, release) for release in taken[KERNELS]}
    kernels = {release: _kernel(taken, release) for release in shown}
    (running,) = (kernels[release] for release, one in shown.items() if one["running"])
    unknown = taken.unread("kernel.next")
    if unknown is None:
        return BootKernels(running, (kernels[taken["kernel.next"]],))
    may = [
        kernels[release]
        for release, one in shown.items()
        if one["in_menu"] and not release.startswith(RESCUE)
    ]
    return BootKernels(running, tuple(may) or (running,), unknown)


def _kernel(taken: Taken, release: str) -> Kernel:
    version, flavour, headers = (
        taken.item(KERNELS, release, name) for name in ("version", "flavour", "headers")
    )
    return Kernel(release, headers, "" if version == ABSENT else f"{version} ({flavour})")


def has_module(kernel: str, version: str) -> str:
    """Return a command that fails if a kernel has no NVIDIA module of this version on disk."""
    files = f"modinfo -k {shlex.quote(kernel)} -F version {' '.join(MODULES)} 2>/dev/null"
    return f"{files} | grep -q -x -F {shlex.quote(version)}"
