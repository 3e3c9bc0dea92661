"""Settings of the running kernel that are files below /sys and /proc: no reboot, no sysctl key.

systemd-tmpfiles writes them at boot (tmpfiles.d(5), type "w"), the deploy at once. Formats: kernel
documentation, admin-guide/mm/transhuge, admin-guide/pm/cpufreq, core-api/workqueue (cpumask),
core-api/irq/irq-affinity.
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


@dataclass(frozen=True)
class KernelFile:
    """One setting: where, and what is to be read there."""

    path: str
    """May hold a ``*``: every file that it covers."""
    value: str
    form: Literal["word", "choice", "mask"]
    """How the kernel shows it: the word itself, one of several in brackets, a CPU mask in hex."""

    def read(self, shown: str) -> str:
        """Return what the kernel shows in the form of ``value``."""
        if self.form == "choice":
            chosen = re.search(r"\[(.+?)\]", shown)
            return chosen.group(1) if chosen else shown
        if self.form == "mask":
            return shown.lstrip("0,") or "0"
        return shown


def kernel_files(hardware: HardwareClass) -> tuple[KernelFile, ...]:
    """Return what ``kernel`` declares of a class."""
    kernel = hardware.kernel
    files = []
    if kernel.transparent_hugepages is not None:
        files.append(KernelFile(f"{THP}/enabled", kernel.transparent_hugepages, "choice"))
    if kernel.transparent_hugepages_defrag is not None:
        files.append(KernelFile(f"{THP}/defrag", kernel.transparent_hugepages_defrag, "choice"))
    if kernel.cpu_governor is not None:
        files.append(KernelFile(GOVERNOR, kernel.cpu_governor, "word"))
    return tuple(files)


def cpu_files(hardware: HardwareClass, cpu: CpuPlan) -> tuple[KernelFile, ...]:
    """Return where the kernel's own work and new interrupts run: on the housekeeping CPUs."""
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
    groups = []
    while digits:
        groups.append(digits[-8:])
        digits = digits[:-8]
    return ",".join(reversed(groups))


def sysctl(hardware: HardwareClass, hugetlb_gid: int | None) -> dict[str, str]:
    """Return the sysctl keys that follow from a class; the site declares all others."""
    keys = {}
    if hardware.kernel.numa_balancing is not None:
        keys["kernel.numa_balancing"] = str(int(hardware.kernel.numa_balancing))
    if hardware.hugepages and hugetlb_gid is not None:
        keys["vm.hugetlb_shm_group"] = str(hugetlb_gid)
    return keys
