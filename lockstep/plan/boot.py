"""Huge pages and the kernel command line of a hardware class.

Formats: kernel documentation, admin-guide/kernel-parameters (hugepages=, hugepagesz=,
irqaffinity=, rcu_nocbs=, nohz_full=, isolcpus=, iommu=, iommu.passthrough=, pci=,
intel_idle.max_cstate=).
"""

from __future__ import annotations

from lockstep.plan.cpu import CpuPlan
from lockstep.spec import HardwareClass
from lockstep.spec.hardware import HUGEPAGE_MIB


def hugepages(hardware: HardwareClass) -> dict[str, dict[int, int]]:
    """Return the number of huge pages per page size and NUMA node; 0 where none are declared."""
    sizes: dict[str, dict[int, int]] = {}
    for pages in hardware.hugepages:
        per_node = sizes.setdefault(pages.size, dict.fromkeys(range(hardware.numa_nodes), 0))
        per_node[pages.numa_node] += pages.count
    return sizes


SYSTEMDS = "2M"
"""Size of the pages of the hugetlbfs that systemd mounts; the plan makes it 2M on all kernels."""


HUGEPAGE_FOLDERS = {size: f"hugepages-{mib * 1024}kB" for size, mib in HUGEPAGE_MIB.items()}
"""Page size -> folder in /sys/devices/system/node/node*/hugepages (kernel documentation,
admin-guide/mm/hugetlbpage)."""
HUGEPAGE_MOUNTS = {
    size: (f"/dev/hugepages{own}", f"dev-hugepages{own}.mount")
    for size in HUGEPAGE_MIB
    for own in ("" if size == SYSTEMDS else size,)
}
"""Page size -> mount point and unit. The 2M unit is systemd's own; the role adds a drop-in."""


def hugepage_args(hardware: HardwareClass) -> tuple[str, ...]:
    """Return the kernel arguments that reserve huge pages at boot, per NUMA node."""
    return tuple(
        arg
        for size, per_node in sorted(hugepages(hardware).items())
        for arg in (
            f"hugepagesz={size}",
            # node:count keeps the declared split; the kernel would spread a plain total evenly.
            "hugepages=" + ",".join(f"{node}:{count}" for node, count in per_node.items()),
        )
    )


def cpu_args(hardware: HardwareClass, cpu: CpuPlan) -> tuple[str, ...]:
    """Return the kernel arguments that keep interrupts and kernel work off the workload CPUs."""
    if not cpu.housekeeping or hardware.boot_loader == "none":
        return ()
    chosen = hardware.kernel.isolation
    # The kernel accepts the flags in any order; a fixed order keeps the text comparable.
    flags = [flag for flag in ("managed_irq", "domain") if flag in chosen]
    return (
        f"irqaffinity={cpu.housekeeping}",
        f"rcu_nocbs={cpu.workload}",
        *((f"nohz_full={cpu.workload}",) if "nohz_full" in chosen else ()),
        *((f"isolcpus={','.join(flags)},{cpu.workload}",) if flags else ()),
    )


def iommu(hardware: HardwareClass) -> tuple[str, str | None]:
    """Return the argument for ``kernel.iommu`` and its value, which is None without one.

    iommu= is for x86. iommu.passthrough= is for arm64, too: NVIDIA's Grace guides set it.
    """
    if hardware.architecture == "arm64":
        passthrough = {"pt": "1", "nopt": "0"}.get(hardware.kernel.iommu or "")
        return ("iommu.passthrough", passthrough)
    return ("iommu", hardware.kernel.iommu)


def kernel_args(hardware: HardwareClass) -> tuple[str, ...]:
    """Return the kernel arguments for a class's ``kernel`` settings, plus its ``kernel_args``."""
    kernel = hardware.kernel
    declared = (
        iommu(hardware),
        ("pci=disable_acs_redir", ";".join(kernel.disable_acs_redir) or None),
        # One of these two drivers controls the idle states (admin-guide/pm/intel_idle).
        ("processor.max_cstate", kernel.max_cstate),
        ("intel_idle.max_cstate", kernel.max_cstate),
        # tmpfiles.d may run before the cpufreq driver is loaded; this sets the kernel's default.
        ("cpufreq.default_governor", kernel.cpu_governor),
    )
    return (
        *(f"{name}={value}" for name, value in declared if value is not None),
        *hardware.kernel_args,
    )
