"""Housekeeping CPUs for the system and its daemons; the others are left to jobs.

Owns     systemd's CPUAffinity default, AllowedCPUs of user.slice and of every service, where the
         kernel's own work and new interrupts run. Kernel arguments are boot_loader's.
Restart  systemd re-executes itself; cpusets hold at once, affinities when services next start.
"""

from __future__ import annotations

from lockstep.files import managed, systemd_configuration
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.cpu_sets import confined, manager_cpus
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.kernel_files import running_kernel_files
from lockstep.roles.operations.service import manager_configuration


@role("CPU sets")
def apply(plan: NodePlan) -> None:
    """Write the CPU sets; before any service of ours starts, so that each starts inside them."""
    managed_files(name="Files", files=managed(plan, None, "cpu_sets"))
    manager_configuration(name="systemd", files=systemd_configuration(plan))
    running_kernel_files(name="Running kernel", files=plan.hardware.cpu_files)
    hardware = plan.hardware
    if hardware.cpu.housekeeping:
        manager_cpus(name="systemd's own CPUs", housekeeping=hardware.cpu.housekeeping)
    if hardware.cpu.housekeeping and hardware.hardware.cgroup == "v2":
        confined(name="Services", housekeeping=hardware.cpu.housekeeping, beyond=plan.job_parents)
