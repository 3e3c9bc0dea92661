"""Operations of the role cpu_sets."""

from __future__ import annotations

import shlex

from lockstep.facts.settings import cpus_of_services, cpus_of_systemd
from lockstep.plan import NodePlan
from lockstep.roles.operations.kernel import running_kernel_files
from lockstep.roles.operations.operation import Commands, ask, operation
from lockstep.roles.operations.service import cpus_applied, manager_configuration
from lockstep.spec.names import cpus


@operation("systemd runs on the housekeeping CPUs")
def manager_cpus(housekeeping: str) -> Commands:
    """Move PID 1 to the housekeeping CPUs; all processes that it starts inherit its affinity.

    systemd applies CPUAffinity= at boot, but not always when it re-executes itself: systemd 257 has
    been seen to read a changed list without applying it.

    Args:
        housekeeping: the CPUs for the system and its daemons.
    """
    if cpus(ask(cpus_of_systemd())) != cpus(housekeeping):
        yield f"taskset -pc {housekeeping} 1"


@operation("every service runs on the housekeeping CPUs")
def confined(housekeeping: str, beyond: tuple[str, ...]) -> Commands:
    """Move services off the workload CPUs, without a restart.

    AllowedCPUs= limits a control group when systemd creates it. This operation finds groups that
    another program has changed, and services that started before the limit was set: a reload does
    not reach all of them (systemd 257: user.slice, services in nested slices).

    Args:
        housekeeping: the CPUs for the system and its daemons.
        beyond: services that may use all CPUs, because jobs run in them.
    """
    allowed = cpus(housekeeping)
    wide = [
        group
        for group, lists in ask(cpus_of_services()).items()
        if group.rpartition("/")[2] not in beyond
        and not all(cpus(text) <= allowed for text in lists)
    ]
    for group in map(shlex.quote, sorted(wide)):  # slice names contain backslashes
        yield (
            f"if [ -f {group}/cpuset.cpus ]; then echo {housekeeping} > {group}/cpuset.cpus; fi; "
            f"for p in $(find {group} -name cgroup.procs -exec cat {{}} +); do "
            # If the process has exited meanwhile, there is nothing to move.
            f'taskset -apc {housekeeping} "$p" >/dev/null || test ! -d "/proc/$p" || exit 1; done'
        )


def afterwards(plan: NodePlan) -> None:
    """Apply the CPU sets to systemd, the kernel and the services that are already running."""
    manager_configuration(name="systemd", files=plan.system.manager_paths)
    running_kernel_files(name="Running kernel", files=plan.hardware.cpu_files)
    hardware = plan.hardware
    if hardware.cpu.housekeeping:
        manager_cpus(name="systemd's own CPUs", housekeeping=hardware.cpu.housekeeping)
    if hardware.cpu.housekeeping and hardware.hardware.cgroup == "v2":
        confined(
            name="Services", housekeeping=hardware.cpu.housekeeping, beyond=plan.system.job_parents
        )
    cpus_applied(name="CPUs of running services")
