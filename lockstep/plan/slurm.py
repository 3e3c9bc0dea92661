"""Slurm's lines: nodes, generic resources, partitions; from the spec, never from a node.

Keys: slurm.conf(5), gres.conf(5).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lockstep.catalog import gpus
from lockstep.plan.cpu import CpuPlan
from lockstep.report import fold
from lockstep.spec import Cluster, HardwareClass, Node, Role
from lockstep.spec.hardware import Gpu
from lockstep.spec.names import cpulist, cpus, expand

MUNGE_KEY = "/etc/munge/munge.key"


@dataclass(frozen=True)
class GresLine:
    """One line of gres.conf: GPUs that sit on one NUMA node."""

    gres_type: str
    file: str
    cores: str


@dataclass(frozen=True)
class SlurmNodePlan:
    """What Slurm is told about the nodes of one hardware class."""

    cpus: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    real_memory_mib: int
    mem_spec_limit_mib: int
    cpu_spec_list: str
    gres: str
    gres_lines: tuple[GresLine, ...]
    """None where slurmd finds the devices itself."""
    gres_types: tuple[str, ...]
    autodetect: str
    """What slurmd finds the GPUs with, gres.conf(5); "": they are listed."""


@dataclass(frozen=True)
class NodeLine:
    """One NodeName line: every worker of a hardware class."""

    names: str
    node: SlurmNodePlan


@dataclass(frozen=True)
class PartitionLine:
    """One PartitionName line."""

    name: str
    nodes: str
    default: bool
    max_time: str


@dataclass(frozen=True)
class SlurmPlan:
    """The cluster's part of slurm.conf and gres.conf."""

    nodes: tuple[NodeLine, ...]
    partitions: tuple[PartitionLine, ...]
    def_mem_per_cpu_mib: int
    cgroup: bool
    """False when any class has no cgroup controllers: one slurm.conf serves all nodes."""
    gpu_types: tuple[str, ...]


def node_plan(hardware: HardwareClass, cpu: CpuPlan, system_memory_mib: int) -> SlurmNodePlan:
    """Return what Slurm is told about one hardware class."""
    gpu = hardware.gpu
    counts = _gres_counts(gpu) if gpu else {}
    return SlurmNodePlan(
        cpus=hardware.cpus,
        sockets=hardware.sockets,
        cores_per_socket=hardware.cores_per_socket,
        threads_per_core=hardware.threads_per_core,
        real_memory_mib=hardware.slurm_memory_mib,
        mem_spec_limit_mib=system_memory_mib,
        cpu_spec_list=cpu.slurm_cpu_spec_list,
        gres=",".join(f"gpu:{name}:{count}" for name, count in counts.items()),
        gres_lines=_gres_lines(gpu, cpu) if gpu and not gpu.mig else (),
        gres_types=tuple(counts),
        autodetect="nvml" if gpu and gpu.mig else "",
    )


def _gres_counts(gpu: Gpu) -> dict[str, int]:
    """Return GRES type -> GPUs, or MIG devices, of a node.

    MIG devices are typed as slurmd itself names them (gpu_nvml.c of 24.11): the product up to a
    hyphen in lower case, then the profile. Their device files depend on where on the board an
    instance came to lie: only NVML knows them.
    """
    if not gpu.mig:
        return {gpu.model: gpu.count}
    product = gpus.load(gpu.model).product_name.partition("-")[0].lower().replace(" ", "_")
    return {
        f"{product}_{profile}": gpu.count * number
        for profile, number in sorted(Counter(gpu.mig).items())
    }


def gpu_devices(gpu: Gpu) -> tuple[str, ...]:
    """Return the device file of each GPU slot."""
    return expand(gpu.devices or f"/dev/nvidia[0-{gpu.count - 1}]")


def gpu_numa(gpu: Gpu, numa_nodes: int) -> dict[int, frozenset[int]]:
    """Return NUMA node -> GPU slots; undeclared: spread in order, as the boards are wired."""
    if gpu.numa:
        return {node: cpus(slots) for node, slots in sorted(gpu.numa.items())}
    spread: dict[int, set[int]] = {}
    for slot in range(gpu.count):
        spread.setdefault(slot * numa_nodes // gpu.count, set()).add(slot)
    return {node: frozenset(slots) for node, slots in spread.items()}


def _gres_lines(gpu: Gpu, cpu: CpuPlan) -> tuple[GresLine, ...]:
    devices = gpu_devices(gpu)
    lines = []
    for node, slots in gpu_numa(gpu, len(cpu.numa)).items():
        prefix = "/dev/nvidia"
        chosen = [devices[slot] for slot in sorted(slots)]
        if all(device.removeprefix(prefix).isdigit() for device in chosen):
            numbers = cpulist(int(device.removeprefix(prefix)) for device in chosen)
            file = f"{prefix}[{numbers}]" if len(chosen) > 1 else chosen[0]
        else:
            file = ",".join(chosen)
        lines.append(GresLine(gpu.model, file, cpu.slurm_numa_cores[node]))
    return tuple(lines)


def plan(
    cluster: Cluster, all_nodes: tuple[Node, ...], classes: dict[str, SlurmNodePlan]
) -> SlurmPlan | None:
    """Return the cluster's part of slurm.conf; None without a scheduler."""
    if cluster.scheduler is None:
        return None
    workers: dict[str, list[str]] = {}
    for node in all_nodes:
        if node.role is Role.WORKER:
            workers.setdefault(node.hardware, []).append(node.name)
    used = {name: classes[name] for name in workers}
    partitions = tuple(
        PartitionLine(p.name, p.nodes, p.default, p.max_time) for p in cluster.scheduler.partitions
    ) or (
        PartitionLine(
            "batch", fold(n for names in workers.values() for n in names), True, "UNLIMITED"
        ),
    )
    return SlurmPlan(
        nodes=tuple(NodeLine(fold(names), classes[name]) for name, names in workers.items()),
        partitions=partitions if workers else (),
        def_mem_per_cpu_mib=min(
            ((c.real_memory_mib - c.mem_spec_limit_mib) // c.cpus for c in used.values()), default=0
        ),
        cgroup=all(cluster.hardware[name].cgroup == "v2" for name in workers),
        gpu_types=tuple(sorted({name for c in used.values() for name in c.gres_types})),
    )
