"""Housekeeping CPUs for the system and its daemons; jobs get all others.

Owns     systemd's default CPUAffinity, the AllowedCPUs of user.slice and of every service, and the
         CPU masks of unbound kernel workqueues and of new interrupts (default_smp_affinity).
Restart  systemd re-executes itself; cpusets apply at once, affinities when services next start.
"""

from __future__ import annotations

from lockstep.facts.services import MANAGER, not_applied, service_state
from lockstep.facts.settings import cpus_of_services, cpus_of_systemd, kernel_files
from lockstep.plan import NodePlan
from lockstep.plan.boot import cpu_args
from lockstep.plan.declaration import TMPFILES, Contribution, Declaration, File, drop_in

BALANCER = "irqbalance.service"
"""This unit is masked, because irqbalance(1) moves interrupts to CPUs that belong to jobs."""


def _has_housekeeping(plan: NodePlan) -> bool:
    return bool(plan.hardware.cpu.housekeeping)


ROLE = Declaration(
    name="cpu_sets",
    title="CPU sets",
    jobs_use=True,
    after=("os_settings", "hugepages"),
    files=(
        File(
            path="/etc/systemd/system.conf.d/50-lockstep-cpus.conf",
            template="cpu_sets/system.conf.j2",
            wanted=_has_housekeeping,
        ),
        File(
            path="/etc/systemd/system/user.slice.d/50-lockstep.conf",
            template="cpu_sets/slice.conf.j2",
            validate=drop_in("user.slice"),
            wanted=_has_housekeeping,
        ),
        File(
            path="/etc/systemd/system/service.d/50-lockstep-cpus.conf",
            template="cpu_sets/service.conf.j2",
            validate=drop_in("systemd-journald.service", "50-lockstep-cpus.conf"),
            wanted=lambda plan: _has_housekeeping(plan) and plan.hardware.hardware.cgroup == "v2",
        ),
        File(
            path="/etc/tmpfiles.d/50-lockstep-cpus.conf",
            template="cpu_sets/tmpfiles.conf.j2",
            validate=TMPFILES,
            wanted=lambda plan: bool(plan.hardware.cpu_files),
        ),
    ),
    contributes=Contribution(
        kernel_args=lambda plan: cpu_args(plan.hardware.hardware, plan.hardware.cpu),
        masked_units=lambda plan: (BALANCER,) if plan.hardware.hardware.housekeeping_cpus else (),
    ),
    operations="lockstep.roles.operations.cpu_sets",
    asks=lambda plan: (
        service_state(MANAGER, (), plan.system.manager_paths),
        kernel_files(tuple(file.path for file in plan.hardware.cpu_files)),
        cpus_of_systemd(),
        cpus_of_services(),
        not_applied(),
    ),
)
