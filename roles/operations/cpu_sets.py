"""Operations of the role cpu_sets."""

from __future__ import annotations

import shlex
from collections.abc import Generator

from pyinfra import host

from lockstep.facts.cpu_sets import cpus_of_services, cpus_of_systemd
from lockstep.facts.reading import ask
from lockstep.files import systemd_configuration
from lockstep.plan import NodePlan
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.kernel_files import running_kernel_files
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.service import manager_configuration
from lockstep.spec.names import cpus


@operation()
def manager_cpus(housekeeping: str) -> Generator[str, None, None]:
    """Move PID 1: it takes CPUAffinity= at boot, and not always when it re-executes itself.

    Seen with systemd 257: a changed list was read and not applied. What it starts inherits its
    affinity.

    Args:
        housekeeping: CPUs of the system and its daemons.
    """
    if cpus(ask(host, cpus_of_systemd())) == cpus(housekeeping):
        host.noop("systemd is on the housekeeping CPUs")
    else:
        yield f"taskset -pc {housekeeping} 1"


@operation()
def confined(housekeeping: str, beyond: tuple[str, ...]) -> Generator[str, None, None]:
    """Bring services that may run on the jobs' CPUs back; none is restarted for it.

    AllowedCPUs= holds a control group as systemd made it; this finds what was changed behind
    systemd's back, and what runs since before the limit: a reload does not reach all of it (seen
    with systemd 257: user.slice, services in nested slices).

    Args:
        housekeeping: CPUs of the system and its daemons.
        beyond: services that reach all CPUs, because jobs begin in them.
    """
    allowed = cpus(housekeeping)
    wide = [
        group
        for group, lists in ask(host, cpus_of_services()).items()
        if group.rpartition("/")[2] not in beyond
        and not all(cpus(text) <= allowed for text in lists)
    ]
    for group in map(shlex.quote, sorted(wide)):  # names of slices have backslashes
        yield (
            f"if [ -f {group}/cpuset.cpus ]; then echo {housekeeping} > {group}/cpuset.cpus; fi; "
            f"for p in $(find {group} -name cgroup.procs -exec cat {{}} +); do "
            # It may have ended meanwhile: then there is nothing to move.
            f'taskset -apc {housekeeping} "$p" >/dev/null || test ! -d "/proc/$p" || exit 1; done'
        )
    if not wide:
        host.noop("every service is on the housekeeping CPUs")


def apply(plan: NodePlan) -> None:
    """Write the files, then move what runs already."""
    put_files(plan, "cpu_sets")
    manager_configuration(name="systemd", files=systemd_configuration(plan))
    running_kernel_files(name="Running kernel", files=plan.hardware.cpu_files)
    hardware = plan.hardware
    if hardware.cpu.housekeeping:
        manager_cpus(name="systemd's own CPUs", housekeeping=hardware.cpu.housekeeping)
    if hardware.cpu.housekeeping and hardware.hardware.cgroup == "v2":
        confined(name="Services", housekeeping=hardware.cpu.housekeeping, beyond=plan.job_parents)
