"""One CPU budget per hardware class: the owner of each CPU, in Linux's and in Slurm's numbers.

Slurm counts CPUs "abstractly": core by core, thread by thread, first socket first
(slurm.conf(5), CpuSpecList; gres.conf(5), Cores); Linux usually lists all first threads first.
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
    """The housekeeping CPUs in Slurm's abstract numbers; "" when there are none."""
    slurm_numa_cores: tuple[str, ...]
    """Cores (not threads) of each NUMA node in Slurm's numbers, for gres.conf."""


def plan(hardware: HardwareClass) -> CpuPlan:
    """Return the CPU sets of a hardware class."""
    everything = frozenset(range(hardware.cpus))
    housekeeping = cpus(hardware.housekeeping_cpus)
    cores = hardware.sockets * hardware.cores_per_socket
    cores_per_node = cores // hardware.numa_nodes
    numa = [
        frozenset(cpu for cpu in everything if core_of(hardware, cpu) // cores_per_node == node)
        for node in range(hardware.numa_nodes)
    ]
    return CpuPlan(
        all=cpulist(everything),
        housekeeping=cpulist(housekeeping),
        workload=cpulist(everything - housekeeping),
        numa=tuple(cpulist(node) for node in numa),
        slurm_cpu_spec_list=cpulist(abstract(hardware, cpu) for cpu in housekeeping),
        slurm_numa_cores=tuple(
            cpulist(range(node * cores_per_node, (node + 1) * cores_per_node))
            for node in range(hardware.numa_nodes)
        ),
    )


def core_of(hardware: HardwareClass, cpu: int) -> int:
    """Return the core (counted over all sockets) that a Linux CPU number belongs to."""
    if hardware.cpu_numbering == "threads_last":
        return cpu % (hardware.sockets * hardware.cores_per_socket)
    return cpu // hardware.threads_per_core


def abstract(hardware: HardwareClass, cpu: int) -> int:
    """Return Slurm's abstract number of a Linux CPU number."""
    if hardware.cpu_numbering == "threads_adjacent":
        return cpu
    cores = hardware.sockets * hardware.cores_per_socket
    return cpu % cores * hardware.threads_per_core + cpu // cores
