"""Slurm's settings for nodes, GPUs and partitions, taken from the spec and never from a node.

Keys: slurm.conf(5), gres.conf(5).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.catalog.os import Release
from lockstep.plan import topology
from lockstep.plan.cpu import CpuPlan
from lockstep.plan.topology import Topologies
from lockstep.report import alike, fold
from lockstep.spec import Cluster, HardwareClass, Node
from lockstep.spec.hardware import CgroupUse, Gpu
from lockstep.spec.names import cpus, expand
from lockstep.spec.schedulers import Partition

MUNGE_KEY = "/etc/munge/munge.key"
SLURMCTLD_PORT = 6817
"""slurm.conf(5), SlurmctldPort."""
NVML_PLUGIN = "/usr/lib/x86_64-linux-gnu/slurm-wlm/gpu_nvml.so"
"""slurmd's plugin for AutoDetect=nvml, from ``Release.slurm_nvml``."""
NAMED = re.compile(r"/dev/nvidia\d+")
"""The driver's name of a GPU's device file."""
_LEAST_FIRST: tuple[CgroupUse, ...] = ("none", "devices", "v2")


@dataclass(frozen=True)
class SlurmNodePlan:
    """Slurm's view of the nodes of one hardware class."""

    hardware: HardwareClass
    mem_spec_limit_mib: int
    cpu_spec_list: str
    gres: str
    """Types and counts, in the order in which the probe reads them from the controller."""
    gres_lines: Mapping[str, str]
    """GPU device files of a NUMA node -> its cores; empty if slurmd detects the GPUs."""
    gres_types: tuple[str, ...]
    autodetect: str
    """AutoDetect in gres.conf(5): how slurmd detects the GPUs; empty if they are listed instead."""
    database_buffer_mib: int
    """Size of InnoDB's buffer pool on a node that runs the accounting database."""

    def to_json(self) -> dict[str, Any]:
        """Return the values under Slurm's own names, as JSON-serializable data."""
        return {
            "CPUs": self.hardware.cpus,
            "CpuSpecList": self.cpu_spec_list,
            "RealMemory": self.hardware.slurm_memory_mib,
            "MemSpecLimit": self.mem_spec_limit_mib,
            "Gres": self.gres,
            "gres.conf": [f"AutoDetect={self.autodetect}"]
            if self.autodetect
            else [f"File={file} Cores={cores}" for file, cores in self.gres_lines.items()],
        }


@dataclass(frozen=True)
class SlurmPlan:
    """The values in slurm.conf and gres.conf that depend on the cluster."""

    nodes: Mapping[str, SlurmNodePlan]
    """Name range of the workers of a hardware class with one release -> Slurm's view of them."""
    features: Mapping[str, tuple[str, ...]]
    """Name range, as in ``nodes`` -> hardware class and release; empty if all are the same."""
    topologies: Topologies
    """Which nodes are near each other."""
    partitions: tuple[Partition, ...]
    def_mem_per_cpu_mib: int
    cgroup: CgroupUse
    """What all classes support, because they share slurm.conf (``HardwareClass.cgroup``)."""
    gpu_types: tuple[str, ...]


def detects_gpus(cluster: Cluster, gpu: Gpu, release: Release) -> bool:
    """Return whether slurmd detects the GPUs itself (AutoDetect=nvml in gres.conf(5)).

    It needs a plugin for NVML and the driver's library; without a declared driver, nothing says
    that the library is there. NVML knows only device files with the driver's names. The devices of
    divided GPUs cannot be listed, so these GPUs are always detected.
    """
    has_nvml = cluster.software.nvidia is not None and all(map(NAMED.fullmatch, gpu_devices(gpu)))
    return bool(release.slurm_nvml) and (has_nvml or bool(gpu.mig))


def node_plan(
    hardware: HardwareClass, cpu: CpuPlan, system_memory_mib: int, detected: bool = False
) -> SlurmNodePlan:
    """Return Slurm's view of a hardware class.

    Args:
        hardware: the class.
        cpu: its CPU sets.
        system_memory_mib: memory that jobs do not get.
        detected: whether slurmd detects the GPUs itself.
    """
    gpu = hardware.nvidia_gpu
    counts = _gres_counts(gpu) if gpu else {}
    return SlurmNodePlan(
        hardware=hardware,
        mem_spec_limit_mib=system_memory_mib,
        cpu_spec_list=cpu.slurm_cpu_spec_list,
        gres=",".join(sorted(f"gpu:{name}:{count}" for name, count in counts.items())),
        gres_lines=_gres_lines(gpu, cpu) if gpu and not detected else {},
        gres_types=tuple(counts),
        autodetect="nvml" if gpu and detected else "",
        database_buffer_mib=min(8192, max(128, hardware.memory_mib // 16)),
    )


def _gres_counts(gpu: Gpu) -> dict[str, int]:
    """Return the number of GPUs (or MIG devices) of each GRES type on a node.

    slurmd detects a GPU as its product name, in lower case and with underscores, and accepts a
    part of it as the type (gpu_nvml.c and gres_gpu.c in 24.11). The types of MIG devices must be
    the detected ones: the product name up to the first hyphen, then the profile. Only NVML knows
    their device files, which depend on the position of an instance on the GPU.
    """
    product = gpu.values.product_name.lower().replace(" ", "_")
    if not gpu.mig:
        return {gpu.name if gpu.name in product else product: gpu.count}
    product = product.partition("-")[0]
    return {
        f"{product}_{profile}": gpu.count * number
        for profile, number in sorted(Counter(gpu.mig).items())
    }


def gpu_devices(gpu: Gpu) -> tuple[str, ...]:
    """Return the device file of each GPU slot."""
    return expand(gpu.devices or f"/dev/nvidia[0-{gpu.count - 1}]")


def gpu_numa(gpu: Gpu, numa_nodes: int) -> dict[int, frozenset[int]]:
    """Return the GPU slots of each NUMA node, as declared or else spread evenly in order."""
    if gpu.numa:
        return {node: cpus(slots) for node, slots in sorted(gpu.numa.items())}
    spread = alike(range(gpu.count), lambda slot: slot * numa_nodes // gpu.count)
    return {node: frozenset(slots) for node, slots in spread.items()}


def _gres_lines(gpu: Gpu, cpu: CpuPlan) -> dict[str, str]:
    devices = gpu_devices(gpu)
    return {
        fold(devices[slot] for slot in slots): cpu.slurm_numa_cores[node]
        for node, slots in gpu_numa(gpu, len(cpu.numa)).items()
        if slots
    }


def plan(
    cluster: Cluster,
    all_nodes: tuple[Node, ...],
    classes: Mapping[tuple[str, str], SlurmNodePlan],
) -> SlurmPlan | None:
    """Return the values in slurm.conf and gres.conf for a cluster; None without a scheduler.

    Args:
        cluster: the description.
        all_nodes: the nodes of the cluster.
        classes: hardware class and release -> Slurm's view of the nodes.
    """
    if cluster.slurm is None:
        return None
    workers = [node for node in all_nodes if node.scheduler == "slurm"]
    kinds = {
        key: fold(node.name for node in nodes)
        for key, nodes in alike(workers, lambda node: (node.hardware, node.release)).items()
    }
    views = [classes[key] for key in kinds]
    partitions = cluster.slurm.partitions if workers else ()
    if workers and not partitions:
        every_worker = fold(node.name for node in workers)
        partitions = (Partition(name="batch", nodes=every_worker, default=True),)
    return SlurmPlan(
        nodes={names: classes[key] for key, names in kinds.items()},
        features={names: key for key, names in kinds.items()} if len(kinds) > 1 else {},
        topologies=topology.plan(cluster, workers, partitions),
        partitions=partitions,
        def_mem_per_cpu_mib=min(
            (
                (c.hardware.slurm_memory_mib - c.mem_spec_limit_mib) // c.hardware.cpus
                for c in views
            ),
            default=0,
        ),
        cgroup=min(
            (view.hardware.cgroup for view in views),
            key=_LEAST_FIRST.index,
            default="v2",
        ),
        gpu_types=tuple(sorted({name for c in views for name in c.gres_types})),
    )
