"""Huge pages per NUMA node: reserved at boot, and at once where the kernel still has the memory.

Owns     nr_hugepages of the running kernel, the hugetlbfs mounts, the group that may use them.
Reboot   what the running kernel could not give waits for one; the check says so.
"""

from __future__ import annotations

from functools import partial

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Contribution, Declaration, File
from lockstep.plan.validation import drop_in


def _has_pages(plan: NodePlan, size: str) -> bool:
    return size in plan.hardware.hugepages


def _has_group(plan: NodePlan) -> bool:
    return bool(plan.hardware.hugepages) and plan.spec.os.hugetlb_gid is not None


ROLE = Declaration(
    name="hugepages",
    title="Huge pages",
    after=("os_settings",),
    files=(
        File(
            path="/etc/sysusers.d/50-lockstep-hugetlb.conf",
            template="hugepages/sysusers.conf.j2",
            wanted=_has_group,
        ),
        File(
            path="/etc/systemd/system/dev-hugepages.mount.d/50-lockstep.conf",
            template="hugepages/mount.conf.j2",
            validate=drop_in("dev-hugepages.mount"),
            wanted=partial(_has_pages, size="2M"),
        ),
        File(
            path="/etc/systemd/system/dev-hugepages1G.mount",
            template="hugepages/dev-hugepages1G.mount.j2",
            wanted=partial(_has_pages, size="1G"),
        ),
    ),
    groups=lambda plan: ("hugetlb",) if _has_group(plan) else (),
    jobs_use=True,
    contributes=Contribution(kernel_args=lambda plan: plan.hardware.hugepage_args),
    operations="lockstep.roles.operations.hugepages",
)
