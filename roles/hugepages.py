"""Huge pages per NUMA node: reserved at boot, and at once if enough memory is still free.

Owns     nr_hugepages in the running kernel, the hugetlbfs mounts, and the group that may use them.
Reboot   needed for pages that the running kernel could not reserve; the check reports them.
"""

from __future__ import annotations

from functools import partial

from lockstep.facts.boot import group_of, hugepages_state, hugetlb_mounts
from lockstep.facts.services import service_state
from lockstep.plan import NodePlan
from lockstep.plan.boot import (
    HUGEPAGE_FOLDERS,
    HUGEPAGE_MOUNTS,
    SYSTEMDS,
    hugepage_args,
)
from lockstep.plan.declaration import Contribution, Declaration, File, drop_in
from lockstep.question import Questions
from lockstep.spec.hardware import HUGEPAGE_MIB


def _has_pages(plan: NodePlan, size: str) -> bool:
    return size in plan.hardware.hugepages


def _has_group(plan: NodePlan) -> bool:
    return bool(plan.hardware.hugepages) and plan.spec.os.hugetlb_gid is not None


def _asks(plan: NodePlan) -> Questions:
    if plan.spec.os.hugetlb_gid is not None:
        yield group_of(plan.spec.os.hugetlb_gid)
    yield hugetlb_mounts(())
    yield from (service_state(HUGEPAGE_MOUNTS[size][1]) for size in plan.hardware.hugepages)
    yield hugepages_state()


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
        *(
            File(
                path=f"/etc/systemd/system/{unit}",
                template="hugepages/size.mount.j2",
                values={
                    "size": size,
                    "words": f"{mib} MiB" if mib < 1024 else f"{mib // 1024} GiB",
                    "folder": HUGEPAGE_FOLDERS[size],
                    "point": point,
                },
                wanted=partial(_has_pages, size=size),
            )
            for size, (point, unit) in HUGEPAGE_MOUNTS.items()
            if size != SYSTEMDS and (mib := HUGEPAGE_MIB[size])
        ),
    ),
    groups=lambda plan: ("hugetlb",) if _has_group(plan) else (),
    jobs_use=True,
    contributes=Contribution(kernel_args=lambda plan: hugepage_args(plan.hardware.hardware)),
    operations="lockstep.roles.operations.hugepages",
    asks=_asks,
    unchecked={
        "group": (
            "file.content checks the file that declares the group; hugepages.mount checks its GID"
        ),
    },
)
