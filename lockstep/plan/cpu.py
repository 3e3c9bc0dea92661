"""The CPU sets of a hardware class, in Linux's and in Slurm's numbering.

Slurm numbers CPUs "abstractly": core by core, thread by thread, first socket first
(slurm.conf(5), CpuSpecList; gres.conf(5), Cores). Linux usually numbers the first thread of every
core first.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.spec import HardwareClass
from lockstep.spec.names import cpulist, cpus


@dataclass(frozen=True)
class CpuPlan:
    """CPU sets of one hardware class, each in Linux's cpulist format."""

    all: str
    housekeeping: str
    workload: str
    numa: tuple[str, ...]
    """CPUs of each NUMA node."""
    slurm_cpu_spec_list: str
    """The housekeeping CPUs in Slurm's abstract numbering; empty if there are none."""
    slurm_numa_cores: tuple[str, ...]
    """Cores (not threads) of each NUMA node in Slurm's numbering, for gres.conf."""


def plan(hardware: HardwareClass) -> CpuPlan:
    """Return the CPU sets of a hardware class."""
    everything = frozenset(range(hardware.cpus))
    housekeeping = cpus(hardware.housekeeping_cpus)
    numa_nodes = range(hardware.numa_nodes)
    cores_per_node = hardware.cores // hardware.numa_nodes
    return CpuPlan(
        all=cpulist(everything),
        housekeeping=cpulist(housekeeping),
        workload=cpulist(everything - housekeeping),
        numa=tuple(
            cpulist(cpu for cpu in everything if hardware.core_of(cpu) // cores_per_node == node)
            for node in numa_nodes
        ),
        slurm_cpu_spec_list=cpulist(abstract(hardware, cpu) for cpu in housekeeping),
        slurm_numa_cores=tuple(
            cpulist(range(node * cores_per_node, (node + 1) * cores_per_node))
            for node in numa_nodes
        ),
    )


def abstract(hardware: HardwareClass, cpu: int) -> int:
    """Return Slurm's abstract number for a Linux CPU number."""
    if hardware.cpu_numbering == "threads_adjacent":
        return cpu
    return hardware.core_of(cpu) * hardware.threads_per_core + cpu // hardware.cores
