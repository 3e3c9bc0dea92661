"""The NVIDIA stack of a node: its parts, with their packages, versions and units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lockstep.catalog import nvidia
from lockstep.catalog.os import Release
from lockstep.plan.driver import Driver
from lockstep.spec import Cluster, HardwareClass
from lockstep.spec.hardware import Gpu
from lockstep.spec.software import Containers, Nvidia

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

DRIVER_PARTS = ("driver", "modules_open", "modules_proprietary", "fabric_manager", "nscq", "imex")
"""Parts that share the driver's version; they change together, and never while jobs are running."""

FABRIC_MANAGER = "nvidia-fabricmanager.service"
IMEX = "nvidia-imex.service"
PERSISTENCED = "nvidia-persistenced.service"
DCGM = "nvidia-dcgm.service"
CDI_REFRESH = "nvidia-cdi-refresh"
"""Base name of the container toolkit's .path and .service units, introduced in version 1.18."""
CHECK_IMAGE = "localhost/lockstep-check:1"
"""Image for test containers; each node builds it from its own busybox, without a registry."""
GPU_SETTINGS = "lockstep-gpu-settings.service"
PREFIX = "NVreg_"
"""Prefix of the parameters in modprobe.d; /proc/driver/nvidia/params omits it."""
IMEX_CHANNEL = "NVreg_CreateImexChannel0"
"""Parameter with which the driver creates the default IMEX channel, for all users."""
MODPROBE = "/etc/modprobe.d/50-lockstep-nvidia.conf"
DCGM_EXPORTER = "nvidia-dcgm-exporter.service"
MIG_MADE = "/run/lockstep/mig-made"
"""A file touched when MIG devices are created, so that slurmd is restarted and detects them."""


@dataclass(frozen=True)
class NvidiaPlan:
    """The NVIDIA stack on the workers of a hardware class."""

    spec: Nvidia
    driver: Driver
    module_options: Mapping[str, str]
    """Parameters of the nvidia kernel module, as modprobe.d(5) has them."""
    packages_of: Mapping[str, Mapping[str, str]]
    """Part -> package -> version pattern."""
    pins: Mapping[str, str]
    """Driver dependency -> version pattern, which keeps apt from selecting a newer version."""
    streams: tuple[str, ...]
    """Module streams that have the driver's packages (RHEL family): ``nvidia-driver:580-open``."""
    load_modules: tuple[str, ...]
    """Kernel modules to load at boot, in order; empty if the machine uses its host's kernel."""

    @cached_property
    def versions(self) -> dict[str, str]:
        """Package -> version pattern, ordered by part."""
        return {
            name: version
            for packages in self.packages_of.values()
            for name, version in packages.items()
        }

    def has(self, part: str) -> bool:
        """Return whether the stack of this class includes the part."""
        return part in self.packages_of


def has_imex_service(gpu: Gpu) -> bool:
    """Return whether a node's own service runs IMEX; ComputeDomains start it in containers."""
    return gpu.multi_node_nvlink and gpu.imex == "host"


def module_options(stack: Nvidia, gpu: Gpu) -> dict[str, str]:
    """Return the options of the nvidia module: the declared ones, and the one that IMEX needs.

    Without an IMEX channel, CUDA cannot share memory between nodes. The driver creates the default
    channel at each start, if told so (IMEX guide, "IMEX Channels").
    """
    channel = {IMEX_CHANNEL: "1"} if has_imex_service(gpu) else {}
    return {**channel, **stack.module_options}


def forbidden_units(hardware: HardwareClass) -> tuple[str, ...]:
    """Return the units that must not run on nodes of a class.

    These are units whose hardware is missing or whose feature is off.
    """
    gpu = hardware.nvidia_gpu
    return (
        *((FABRIC_MANAGER,) if gpu is None or not gpu.nvswitch else ()),
        *((IMEX,) if gpu is None or not has_imex_service(gpu) else ()),
        *((PERSISTENCED,) if gpu is not None and gpu.persistence is False else ()),
    )


def plan(cluster: Cluster, hardware: HardwareClass, release: Release) -> NvidiaPlan | None:
    """Return the NVIDIA stack of a class; None if the class has no GPUs or no stack is declared.

    Args:
        cluster: the description.
        hardware: the class.
        release: the operating system of the nodes.
    """
    stack, gpu = cluster.software.nvidia, hardware.nvidia_gpu
    if stack is None or gpu is None:
        return None
    packaging = nvidia.packaging(stack.packaging, stack.driver, release)
    flavour = None
    if hardware.boot_loader != "none":
        flavour = stack.modules or gpu.values.modules(stack.driver)
    packages_of = {
        part: dict(packaging.packages(part, stack.version_of(part), stack.driver, stack.cuda))
        for part in _parts(
            cluster.software.containers,
            stack,
            gpu,
            flavour,
            gds="nvidia_fs" not in packaging.from_archive,
        )
    }
    locked = cluster.software.locked_on(release.name)
    return NvidiaPlan(
        spec=stack,
        module_options=module_options(stack, gpu),
        driver=Driver(
            version=stack.driver,
            packages={
                name: locked.get(name, version)
                for part in DRIVER_PARTS
                for name, version in packages_of.get(part, {}).items()
            },
            flavour=flavour,
            replaced=_replaced(packaging, stack, flavour),
            parameters={
                name.removeprefix(PREFIX): value
                for name, value in module_options(stack, gpu).items()
            },
        ),
        packages_of=packages_of,
        pins=packaging.pins(stack.driver),
        streams=tuple(
            stream.format(series=nvidia.compatibility.branch(stack.driver))
            for part, stream in packaging.streams.items()
            # Without modules of its own, a machine gets the packages of the open stream.
            if part == f"modules_{flavour or 'open'}"
        ),
        load_modules=(
            *(("nvidia", "nvidia-uvm") if flavour else ()),
            *(("nvidia-peermem",) if flavour and hardware.nics.gpudirect == "peermem" else ()),
            *(("gdrdrv",) if "gdrcopy" in packages_of else ()),
            *(("nvidia-fs",) if "nvidia_fs" in packages_of else ()),
        ),
    )


def _replaced(packaging: nvidia.Packaging, stack: Nvidia, flavour: str | None) -> tuple[str, ...]:
    if flavour is None:
        return ()
    own, others = (
        [name for name, _ in packaging.packages(f"modules_{one}", stack.driver, stack.driver)]
        for one in (flavour, "proprietary" if flavour == "open" else "open")
    )
    return tuple(name for name in others if name not in own)


def _parts(
    containers: Containers, stack: Nvidia, gpu: Gpu, flavour: str | None, *, gds: bool
) -> tuple[str, ...]:
    """Return the parts of the NVIDIA stack that nodes with the given GPUs get.

    Args:
        containers: the container engines.
        stack: the declared versions.
        gpu: the GPUs.
        flavour: the flavour of the kernel modules; None without modules.
        gds: whether GPUDirect Storage comes from NVIDIA, with tools for each CUDA release.
    """
    wanted = {
        "driver": True,
        f"modules_{flavour}": flavour is not None,
        f"cuda_{stack.cuda_parts}": bool(stack.cuda),
        "fabric_manager": gpu.nvswitch,
        "nscq": gpu.nvswitch and stack.nscq is not None,
        "imex": gpu.multi_node_nvlink,
        "dcgm": stack.dcgm is not None,
        "dcgm_exporter": stack.dcgm_exporter is not None,
        "nccl": stack.nccl is not None,
        "gdrcopy": stack.gdrcopy is not None and flavour is not None,
        "nvidia_fs": stack.nvidia_fs is not None and flavour is not None,
        "gds": stack.nvidia_fs is not None and flavour is not None and gds,
        "container_toolkit": stack.container_toolkit is not None
        and bool(containers.engines or containers.enroot),
    }
    return tuple(part for part, gets in wanted.items() if gets)


def stack_packages(plan: NodePlan, *parts: str) -> tuple[str, ...]:
    """Return the packages that a node gets for the given parts of the stack."""
    of_part = plan.nvidia.packages_of if plan.nvidia is not None else {}
    return tuple(name for part in parts for name in of_part.get(part, ()))


def check_engines(plan: NodePlan) -> tuple[str, ...]:
    """Return a node's container engines that can start a container with all GPUs."""
    if "container_runtime" not in plan.roles or plan.nvidia is None:
        return ()
    return plan.engines


def mig_missing(declared: Iterable[str], seen: Iterable[str]) -> tuple[str, ...] | None:
    """Return the MIG devices that a GPU lacks, in the order in which they must be created.

    Returns None if the GPU has an undeclared device, which must be removed first.
    """
    wanted, there = Counter(declared), Counter(seen)
    return None if there - wanted else tuple((wanted - there).elements())
