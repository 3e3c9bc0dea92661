"""Settings of the running kernel that are files in /sys and /proc but not sysctls.

systemd-tmpfiles writes them at boot (tmpfiles.d(5), type "w"), and a deploy writes them
immediately. Formats: kernel documentation, admin-guide/mm/transhuge, admin-guide/pm/cpufreq,
core-api/workqueue (cpumask), core-api/irq/irq-affinity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from lockstep.plan.cpu import CpuPlan
from lockstep.spec import HardwareClass
from lockstep.spec.names import cpus

THP = "/sys/kernel/mm/transparent_hugepage"
GOVERNOR = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
UNBOUND_WORK = "/sys/devices/virtual/workqueue/cpumask"
NEW_INTERRUPTS = "/proc/irq/default_smp_affinity"

Form = Literal["word", "choice", "mask"]


@dataclass(frozen=True)
class KernelFile:
    """One setting: its file, and the value that the file must show."""

    path: str
    """Path of the file; if it contains ``*``, the setting applies to all matching files."""
    value: str
    form: Form
    """The kernel's format: a single word, a list with the current word in brackets, or a mask."""

    def read(self, shown: str) -> str:
        """Return the content of the file in the same format as ``value``."""
        if self.form == "choice":
            chosen = re.search(r"\[(.+?)\]", shown)
            return chosen.group(1) if chosen else shown
        if self.form == "mask":
            return shown.lstrip("0,") or "0"
        return shown


def kernel_files(hardware: HardwareClass) -> tuple[KernelFile, ...]:
    """Return the kernel files for a class's ``kernel`` settings."""
    kernel = hardware.kernel
    settings: tuple[tuple[str, str | None, Form], ...] = (
        (f"{THP}/enabled", kernel.transparent_hugepages, "choice"),
        (f"{THP}/defrag", kernel.transparent_hugepages_defrag, "choice"),
        (GOVERNOR, kernel.cpu_governor, "word"),
    )
    return tuple(
        KernelFile(path, value, form) for path, value, form in settings if value is not None
    )


def cpu_files(hardware: HardwareClass, cpu: CpuPlan) -> tuple[KernelFile, ...]:
    """Return the CPU masks that keep unbound workqueues and new IRQs on the housekeeping CPUs."""
    if not cpu.housekeeping or hardware.boot_loader == "none":
        return ()
    mask = cpu_mask(cpu.housekeeping)
    return (
        KernelFile(UNBOUND_WORK, mask, "mask"),
        KernelFile(NEW_INTERRUPTS, mask, "mask"),
    )


def cpu_mask(cpulist: str) -> str:
    """Return a CPU list as the kernel's hex mask, in groups of 32 bits: ``1,00000001``."""
    digits = f"{sum(1 << cpu for cpu in cpus(cpulist)):x}"
    first = len(digits) % 8
    groups = (digits[at : at + 8] for at in range(first, len(digits), 8))
    return ",".join(filter(None, (digits[:first], *groups)))


def sysctl(hardware: HardwareClass, hugetlb_gid: int | None) -> dict[str, str]:
    """Return the sysctls that a hardware class determines; ``os.sysctl`` declares all others."""
    keys = {
        "kernel.numa_balancing": hardware.kernel.numa_balancing,
        "vm.hugetlb_shm_group": hugetlb_gid if hardware.hugepages else None,
    }
    return {key: str(int(value)) for key, value in keys.items() if value is not None}
