"""The NVIDIA stack of a node: which parts, which packages at which versions, which units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from lockstep.catalog import gpus, nvidia
from lockstep.spec import Cluster, HardwareClass
from lockstep.spec.software import Nvidia

DRIVER_PARTS = ("driver", "modules_open", "modules_proprietary", "fabric_manager", "nscq", "imex")
"""Parts that change together, and never under a running job: they are of one driver version."""

FABRIC_MANAGER = "nvidia-fabricmanager.service"
IMEX = "nvidia-imex.service"
PERSISTENCED = "nvidia-persistenced.service"
DCGM = "nvidia-dcgm.service"
CDI_REFRESH = "nvidia-cdi-refresh"
"""A .path and a .service unit of the container toolkit, from 1.18 on."""
CHECK_IMAGE = "localhost/lockstep-check:1"
"""Made on each node from its own busybox; no registry is asked."""
GPU_SETTINGS = "lockstep-gpu-settings.service"
PREFIX = "NVreg_"
"""Of the parameters in modprobe.d; /proc/driver/nvidia/params leaves it out."""
MODPROBE = "/etc/modprobe.d/50-lockstep-nvidia.conf"
DCGM_EXPORTER = "nvidia-dcgm-exporter.service"
MIG_MADE = "/run/lockstep/mig-made"
"""Touched whenever MIG devices were made: slurmd looks for them when it starts."""


@dataclass(frozen=True)
class NvidiaPlan:
    """What the nodes of a hardware class get of the stack."""

    spec: Nvidia
    parts: tuple[str, ...]
    modules: str | None
    """``open`` or ``proprietary``; None: the kernel is not the machine's own, nor its modules."""
    packages_of: Mapping[str, Mapping[str, str]]
    """Part -> its packages -> their versions as patterns."""
    pins: Mapping[str, str]
    """Further package -> pattern: what comes along by dependency, and must not be a newer one."""
    driver_packages: tuple[str, ...]
    """Those that never change under a running job."""
    load_modules: tuple[str, ...]
    """Kernel modules to load at boot, in this order; none where the kernel is not its own."""
    replaced: tuple[str, ...] = ()
    """Packages of the other flavour of modules, which must not stay beside these."""

    @cached_property
    def versions(self) -> dict[str, str]:
        """Package -> its version as a pattern; in the order of the parts."""
        return {
            name: version
            for packages in self.packages_of.values()
            for name, version in packages.items()
        }

    @property
    def packages(self) -> tuple[str, ...]:
        """Every package of the stack on the node."""
        return tuple(self.versions)

    @property
    def parameters(self) -> dict[str, str]:
        """Declared parameters of the kernel module, as it shows them: without their prefix."""
        return {
            name.removeprefix(PREFIX): value for name, value in self.spec.module_options.items()
        }

    def has(self, part: str) -> bool:
        """Say whether the node gets a part."""
        return part in self.parts


def _load_modules(hardware: HardwareClass, flavour: str | None) -> tuple[str, ...]:
    """Return what to load: peermem only where the modules cannot share memory by DMA-BUF.

    NVIDIA's GPUDirect RDMA guide: open modules and kernel 5.12 need no nvidia-peermem.
    """
    if flavour is None:
        return ()
    peermem = flavour == "proprietary" and hardware.nics.rdma != "none"
    return ("nvidia", "nvidia-uvm", *(("nvidia-peermem",) if peermem else ()))


def forbidden_units(hardware: HardwareClass) -> tuple[str, ...]:
    """Return the units that must not run on a class: what they serve is not there or not wanted."""
    gpu = hardware.gpu
    return (
        *((FABRIC_MANAGER,) if gpu is None or not gpu.nvswitch else ()),
        *((IMEX,) if gpu is None or not gpu.multi_node_nvlink else ()),
        *((PERSISTENCED,) if gpu is not None and not gpu.persistence else ()),
    )


def modules(stack: Nvidia, hardware: HardwareClass) -> str | None:
    """Return which kernel modules a class gets; None: none, its kernel is not its own."""
    if hardware.boot_loader == "none" or hardware.gpu is None:
        return None
    if stack.modules is not None:
        return stack.modules
    return gpus.load(hardware.gpu.model).modules


def plan(cluster: Cluster, hardware: HardwareClass) -> NvidiaPlan | None:
    """Return the stack of a hardware class; None where it has no GPUs or nothing is declared."""
    stack = cluster.software.nvidia
    if stack is None or hardware.gpu is None:
        return None
    packaging = nvidia.load(stack.packaging)
    chosen = tuple(_parts(cluster, stack, hardware))
    of_part = {
        part: dict(packaging.packages(part, version_of(stack, part), stack.driver, stack.cuda))
        for part in chosen
    }
    flavour = modules(stack, hardware)
    return NvidiaPlan(
        spec=stack,
        parts=chosen,
        modules=flavour,
        load_modules=_load_modules(hardware, flavour),
        replaced=_replaced(packaging, stack, flavour),
        packages_of=of_part,
        pins=dict(packaging.pins("driver", stack.driver)),
        driver_packages=tuple(
            name for part in chosen if part in DRIVER_PARTS for name in of_part[part]
        ),
    )


def _replaced(packaging: nvidia.Packaging, stack: Nvidia, flavour: str | None) -> tuple[str, ...]:
    if flavour is None:
        return ()
    ours, others = (
        [name for name, _ in packaging.packages(f"modules_{one}", stack.driver, stack.driver, ())]
        for one in (flavour, "proprietary" if flavour == "open" else "open")
    )
    return tuple(name for name in others if name not in ours)


def _parts(cluster: Cluster, stack: Nvidia, hardware: HardwareClass) -> Iterator[str]:
    assert hardware.gpu is not None
    yield "driver"
    flavour = modules(stack, hardware)
    if flavour is not None:
        yield f"modules_{flavour}"
    if stack.cuda:
        yield f"cuda_{stack.cuda_parts}"
    if hardware.gpu.nvswitch:
        yield "fabric_manager"
        if stack.nscq is not None:
            yield "nscq"
    if hardware.gpu.multi_node_nvlink:
        yield "imex"
    for part in ("dcgm", "dcgm_exporter", "nccl"):
        if getattr(stack, part) is not None:
            yield part
    if stack.gdrcopy is not None and flavour is not None:
        yield "gdrcopy"
    containers = cluster.software.containers
    if stack.container_toolkit is not None and (containers.engines or containers.enroot):
        yield "container_toolkit"


def mig_missing(declared: Iterable[str], seen: Iterable[str]) -> tuple[str, ...] | None:
    """Return what a board's layout lacks, in the order in which it is made.

    None: something else than declared is there, and has to go first.
    """
    wanted, there = Counter(declared), Counter(seen)
    return None if there - wanted else tuple((wanted - there).elements())


def version_of(stack: Nvidia, part: str) -> str | None:
    """Return the upstream version that a part is declared at; None for CUDA's, by release."""
    if part.startswith("cuda_"):
        return None
    declared: str = stack.driver if part.startswith("modules_") else getattr(stack, part)
    return declared
