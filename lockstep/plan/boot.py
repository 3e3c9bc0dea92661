"""Huge pages and the kernel command line of a hardware class.

Formats: kernel documentation, admin-guide/kernel-parameters (hugepages=, hugepagesz=,
irqaffinity=, rcu_nocbs=, nohz_full=, isolcpus=, iommu=, pci=, intel_idle.max_cstate=).
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
    """Return the kernel arguments that keep interrupts and callbacks off the workload CPUs."""
    if not cpu.housekeeping or hardware.boot_loader == "none":
        return ()
    args = [f"irqaffinity={cpu.housekeeping}", f"rcu_nocbs={cpu.workload}"]
    chosen = hardware.kernel.isolation
    if "nohz_full" in chosen:
        args.append(f"nohz_full={cpu.workload}")
    # The order of the flags is free; a fixed one keeps the text comparable.
    flags = [flag for flag in ("managed_irq", "domain") if flag in chosen]
    if flags:
        args.append(f"isolcpus={','.join(flags)},{cpu.workload}")
    return tuple(args)


def kernel_args(hardware: HardwareClass) -> tuple[str, ...]:
    """Return the kernel arguments of ``kernel``, and the further ones that the class declares."""
    kernel = hardware.kernel
    args = []
    if kernel.iommu is not None:
        args.append(f"iommu={kernel.iommu}")
    if kernel.disable_acs_redir:
        args.append(f"pci=disable_acs_redir={';'.join(kernel.disable_acs_redir)}")
    if kernel.max_cstate is not None:
        # Whichever of the two drivers runs the idle states (admin-guide/pm/intel_idle).
        args += [
            f"processor.max_cstate={kernel.max_cstate}",
            f"intel_idle.max_cstate={kernel.max_cstate}",
        ]
    if kernel.cpu_governor is not None:
        # tmpfiles.d may run before the driver's module is there; this is the kernel's own default.
        args.append(f"cpufreq.default_governor={kernel.cpu_governor}")
    return (*args, *hardware.kernel_args)
