"""Operations of the role hugepages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lockstep.facts.boot import (
    HUGEPAGES_TRIED,
    REACHED,
    HugetlbMount,
    group_of,
    hugepages_state,
    hugetlb_mounts,
)
from lockstep.facts.services import service_state
from lockstep.plan import NodePlan
from lockstep.plan.boot import HUGEPAGE_FOLDERS, HUGEPAGE_MOUNTS
from lockstep.roles.operations.operation import CommandsOrReason, ask, operation

GROUP = "hugetlb"


@operation()
def running_hugepages(wanted: Mapping[str, Mapping[int, int]]) -> CommandsOrReason:
    """Request huge pages from the running kernel, unless it has already failed to provide them.

    Args:
        wanted: page size -> NUMA node -> number of pages.
    """
    state = ask(hugepages_state())
    plan = {(size, node): pages for size, split in wanted.items() for node, pages in split.items()}
    asked = ",".join(f"{size}:{node}:{pages}" for (size, node), pages in sorted(plan.items()))
    wrong = {key: pages for key, pages in plan.items() if state.counts.get(key) != pages}
    if not wrong:
        return "the running kernel has the planned huge pages"
    if state.tried == f"{asked} reached {state.reached}":
        return "the running kernel could not reserve the huge pages: a reboot is pending"
    for (size, node), pages in sorted(wrong.items()):
        folder = f"/sys/devices/system/node/node{node}/hugepages/{HUGEPAGE_FOLDERS[size]}"
        # If the kernel refuses (read-only, or no such size yet), a reboot helps, so do not fail.
        yield f"echo {pages} > {folder}/nr_hugepages || echo 'not reserved: a reboot is pending'"
    # Records the requested and the reached numbers, so that pages lost later are requested again.
    yield (
        f"mkdir -p {Path(HUGEPAGES_TRIED).parent} && "
        f'echo "{asked} reached $({REACHED})" > {HUGEPAGES_TRIED}'
    )
    return ""


@operation()
def mounted(points: Mapping[str, str], gid: int | None) -> CommandsOrReason:
    """Mount a hugetlbfs for each page size, accessible to the users who run jobs.

    Args:
        points: mount point -> its unit.
        gid: the group that may use huge pages; None: all users.
    """
    if not points:
        return "the plan has no huge pages for this node"
    found = ask(hugetlb_mounts(points))
    wanted = HugetlbMount("1777", 0) if gid is None else HugetlbMount("1770", gid)
    for point, unit in points.items():
        if ask(service_state(unit)).enabled == "disabled":  # systemd's own unit is static
            yield f"systemctl daemon-reload && systemctl enable {unit}"
        state = found.get(point)
        if state is None:
            yield (
                f"systemctl daemon-reload && systemctl start {unit} && "
                # systemctl does not fail when a condition of the unit is not met.
                f"findmnt -n -t hugetlbfs {point} >/dev/null || "
                f"{{ echo '{point}: not mounted. "
                "Next: check that the kernel supports huge pages of this size' >&2; "
                "exit 1; }"
            )
        elif state != wanted:
            # Not remounted with new options, because a job may be using the mount.
            yield f"chgrp {wanted.gid} {point} && chmod {wanted.mode} {point}"
    return "hugetlbfs is mounted with the planned group and mode"


@operation()
def group(gid: int | None, files: tuple[str, ...]) -> CommandsOrReason:
    """Create the group that may use huge pages; the site adds the members.

    Args:
        gid: the GID of the group; None: the plan has no such group.
        files: the sysusers.d file that declares it.
    """
    if gid is None or not files:
        return "every user may use huge pages"
    if ask(group_of(gid)) != GROUP:
        # The command fails with a message if another group has the GID, or the name another GID.
        yield (
            f"systemd-sysusers {' '.join(files)}; "
            f'test "$(getent group {gid} | cut -d: -f1)" = {GROUP} || '
            f'{{ echo "os.hugetlb_gid {gid}: found $(getent group {gid} || getent group {GROUP}), '
            f'expected {GROUP} with this GID. Next: choose a different GID" >&2; exit 1; }}'
        )
    return f"the group {GROUP} exists"


def afterwards(plan: NodePlan) -> None:
    """Create the group and the mounts, and request huge pages; some may need a reboot."""
    group(
        name="Group",
        gid=plan.spec.os.hugetlb_gid if plan.hardware.hugepages else None,
        files=tuple(path for path in plan.system.paths("hugepages") if "/sysusers.d/" in path),
    )
    mounted(
        name="Mounts",
        points=dict(HUGEPAGE_MOUNTS[size] for size in plan.hardware.hugepages),
        gid=plan.spec.os.hugetlb_gid,
    )
    running_hugepages(name="Running kernel", wanted=plan.hardware.hugepages)
