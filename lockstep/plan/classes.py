"""What is equal on every node of a hardware class: computed once per class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.catalog import gpus
from lockstep.catalog.gpus import GpuModel
from lockstep.plan import boot, cpu, nvidia, running, slurm
from lockstep.spec import Cluster, HardwareClass


@dataclass(frozen=True)
class ClassPlan:
    """What is equal on every node of a hardware class."""

    name: str
    hardware: HardwareClass
    cpu: cpu.CpuPlan
    hugepages: Mapping[str, Mapping[int, int]]
    """Page size (2M, 1G) -> NUMA node -> pages."""
    cpu_args: tuple[str, ...]
    hugepage_args: tuple[str, ...]
    other_args: tuple[str, ...]
    """Kernel arguments of ``kernel``, and the class's further ones."""
    cpu_files: tuple[running.KernelFile, ...]
    kernel_files: tuple[running.KernelFile, ...]
    sysctl: Mapping[str, str]
    """Keys that follow from the class, beside those of the cluster."""
    slurm: slurm.SlurmNodePlan
    gpu_model: GpuModel | None
    gpu_devices: tuple[str, ...]
    nvidia: nvidia.NvidiaPlan | None
    """What its workers get of NVIDIA's stack; None: nothing is declared, or it has no GPUs."""


def class_plan(cluster: Cluster, name: str, hardware: HardwareClass) -> ClassPlan:
    """Return the plan of a hardware class."""
    cpus = cpu.plan(hardware)
    system_memory_mib = cluster.scheduler.system_memory_mib if cluster.scheduler else 0
    return ClassPlan(
        name=name,
        hardware=hardware,
        cpu=cpus,
        hugepages=boot.hugepages(hardware),
        cpu_args=boot.cpu_args(hardware, cpus),
        hugepage_args=boot.hugepage_args(hardware),
        other_args=boot.kernel_args(hardware),
        cpu_files=running.cpu_files(hardware, cpus),
        kernel_files=running.kernel_files(hardware),
        sysctl=running.sysctl(hardware, cluster.os.hugetlb_gid),
        slurm=slurm.node_plan(hardware, cpus, system_memory_mib),
        gpu_model=gpus.load(hardware.gpu.model) if hardware.gpu else None,
        gpu_devices=slurm.gpu_devices(hardware.gpu) if hardware.gpu else (),
        nvidia=nvidia.plan(cluster, hardware),
    )
