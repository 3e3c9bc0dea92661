"""Housekeeping CPUs for the system and its daemons; the others are left to jobs.

Owns     systemd's CPUAffinity default, AllowedCPUs of user.slice and of every service, where the
         kernel's own work and new interrupts run.
Restart  systemd re-executes itself; cpusets hold at once, affinities when services next start.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Contribution, Declaration, File
from lockstep.plan.validation import TMPFILES, drop_in

BALANCER = "irqbalance.service"
"""It moves interrupts to any CPU (irqbalance(1)); they stay on the housekeeping CPUs."""


def _has_housekeeping(plan: NodePlan) -> bool:
    return bool(plan.hardware.cpu.housekeeping)


def _has_cpusets(plan: NodePlan) -> bool:
    return _has_housekeeping(plan) and plan.hardware.hardware.cgroup == "v2"


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
            wanted=_has_cpusets,
        ),
        File(
            path="/etc/tmpfiles.d/50-lockstep-cpus.conf",
            template="cpu_sets/tmpfiles.conf.j2",
            validate=TMPFILES,
            wanted=lambda plan: bool(plan.hardware.cpu_files),
        ),
    ),
    contributes=Contribution(
        kernel_args=lambda plan: plan.hardware.cpu_args,
        masked_units=lambda plan: (BALANCER,) if plan.hardware.hardware.housekeeping_cpus else (),
    ),
    operations="lockstep.roles.operations.cpu_sets",
)
