"""Huge pages and the kernel command line of a hardware class.

Formats: kernel documentation, admin-guide/kernel-parameters (hugepages=, hugepagesz=,
irqaffinity=, rcu_nocbs=).
"""

from __future__ import annotations

from lockstep.plan.cpu import CpuPlan
from lockstep.spec import HardwareClass


def hugepages(hardware: HardwareClass) -> dict[str, dict[int, int]]:
    """Return page size -> NUMA node -> number of pages; every NUMA node is named."""
    sizes: dict[str, dict[int, int]] = {}
    for pages in hardware.hugepages:
        per_node = sizes.setdefault(pages.size, dict.fromkeys(range(hardware.numa_nodes), 0))
        per_node[pages.numa_node] += pages.count
    return sizes


def hugepage_args(hardware: HardwareClass) -> tuple[str, ...]:
    """Return the kernel arguments that reserve huge pages at boot, per NUMA node."""
    args = []
    for size, per_node in sorted(hugepages(hardware).items()):
        # The form node:count keeps the split that was asked for; a plain total is spread evenly.
        split = ",".join(f"{node}:{count}" for node, count in per_node.items())
        args += [f"hugepagesz={size}", f"hugepages={split}"]
    return tuple(args)


def cpu_args(hardware: HardwareClass, cpu: CpuPlan) -> tuple[str, ...]:
    """Return the kernel arguments for CPUs, and the further ones that the class declares."""
    if not cpu.housekeeping or hardware.boot_loader == "none":
        return hardware.kernel_args
    return (
        f"irqaffinity={cpu.housekeeping}",
        f"rcu_nocbs={cpu.workload}",
        *hardware.kernel_args,
    )
