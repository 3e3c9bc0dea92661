"""Operations of the role hugepages."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path

from pyinfra import host

from lockstep.facts.boot import (
    HUGEPAGES_TRIED,
    REACHED,
    SIZES,
    HugetlbMount,
    group_of,
    hugepages_state,
    hugetlb_mounts,
)
from lockstep.facts.reading import ask
from lockstep.facts.services import service_state
from lockstep.files import paths
from lockstep.plan import NodePlan
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.operation import operation

GROUP = "hugetlb"


@operation()
def running_hugepages(wanted: Mapping[str, Mapping[int, int]]) -> Generator[str, None, None]:
    """Ask the running kernel for huge pages, once per boot and plan.

    Args:
        wanted: page size -> NUMA node -> pages.
    """
    state = ask(host, hugepages_state())
    plan = {(size, node): pages for size, split in wanted.items() for node, pages in split.items()}
    asked = ",".join(f"{size}:{node}:{pages}" for (size, node), pages in sorted(plan.items()))
    wrong = {key: pages for key, pages in plan.items() if state.counts.get(key) != pages}
    if not wrong:
        host.noop("the kernel has the huge pages")
        return
    if state.tried == f"{asked} reached {state.reached}":
        host.noop("this boot's kernel could not give the huge pages: pending reboot")
        return
    for (size, node), pages in sorted(wrong.items()):
        folder = f"/sys/devices/system/node/node{node}/hugepages/{SIZES[size]}"
        # A kernel that refuses (read-only, or no such size yet) is not a failure: a reboot is due.
        yield f"echo {pages} > {folder}/nr_hugepages || echo 'refused: pending reboot'"
    # What was reached is kept beside what was asked: pages lost later are asked for again.
    kept_in = Path(HUGEPAGES_TRIED).parent
    yield f'mkdir -p {kept_in} && echo "{asked} reached $({REACHED})" > {HUGEPAGES_TRIED}'


@operation()
def mounted(points: Mapping[str, str], gid: int | None) -> Generator[str, None, None]:
    """Mount hugetlbfs per page size, for the users of jobs.

    Args:
        points: mount point -> its unit.
        gid: group that may use huge pages; None: everybody.
    """
    if not points:
        host.noop("no huge pages on this node")
        return
    found = ask(host, hugetlb_mounts(points))
    wanted = HugetlbMount("1777", 0) if gid is None else HugetlbMount("1770", gid)
    right = True
    for point, unit in points.items():
        if ask(host, service_state(unit)).enabled == "disabled":  # systemd's own is static
            right = False
            yield f"systemctl daemon-reload && systemctl enable {unit}"
        state = found.get(point)
        if state is None:
            right = False
            yield (
                f"systemctl daemon-reload && systemctl start {unit} && "
                # Conditions of a unit that are not met are no failure to systemctl.
                f"findmnt -n -t hugetlbfs {point} >/dev/null || "
                f"{{ echo '{point}: not mounted: has this kernel pages of that size?' >&2; "
                "exit 1; }"
            )
        elif state != wanted:
            right = False
            # hugetlbfs takes its rights when it is mounted; a job may hold it, so it stays mounted.
            yield f"chgrp {wanted.gid} {point} && chmod {wanted.mode} {point}"
    if right:
        host.noop("hugetlbfs is mounted for the jobs")


@operation()
def group(gid: int | None, files: tuple[str, ...]) -> Generator[str, None, None]:
    """Make the group that may use huge pages; the site decides on its members.

    Args:
        gid: its number; None: there is none.
        files: the sysusers.d file that declares it.
    """
    if gid is None or not files:
        host.noop("every user may use huge pages")
    elif ask(host, group_of(gid)) == GROUP:
        host.noop(f"group {GROUP} is there")
    else:
        # Fails, and says so, when the number or the name is taken by another group.
        yield (
            f"systemd-sysusers {' '.join(files)}; "
            f'test "$(getent group {gid} | cut -d: -f1)" = {GROUP} || '
            f'{{ echo "group {gid}: $(getent group {gid} || getent group {GROUP}); expected '
            f'{GROUP}: choose another os.hugetlb_gid" >&2; exit 1; }}'
        )


MOUNTS = {
    "2M": ("/dev/hugepages", "dev-hugepages.mount"),
    "1G": ("/dev/hugepages1G", "dev-hugepages1G.mount"),
}
"""Page size -> mount point and unit; the first is systemd's own, with a drop-in of the role."""


def apply(plan: NodePlan) -> None:
    """Ask the running kernel; what it cannot give waits for the boot arguments (boot_loader)."""
    put_files(plan, "hugepages")
    group(
        name="Group",
        gid=plan.spec.os.hugetlb_gid if plan.hardware.hugepages else None,
        files=tuple(path for path in paths(plan, "hugepages") if "/sysusers.d/" in path),
    )
    mounted(
        name="Mounts",
        points={MOUNTS[size][0]: MOUNTS[size][1] for size in plan.hardware.hugepages},
        gid=plan.spec.os.hugetlb_gid,
    )
    running_hugepages(name="Running kernel", wanted=plan.hardware.hugepages)
