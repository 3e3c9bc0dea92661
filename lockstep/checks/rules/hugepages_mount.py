"""Huge pages of each planned size can be mapped by jobs.

Why      Pages that are reserved and that no job may open are memory lost to everybody.
Blind    Mounts elsewhere, and what lies in a mount; shared memory (vm.hugetlb_shm_group).
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.probe.record import Unread

READING = "hugepages.mounts"
POINTS = {"2M": "/dev/hugepages", "1G": "/dev/hugepages1G"}
UNIT_OF = {
    "/dev/hugepages": "/etc/systemd/system/dev-hugepages.mount.d/50-lockstep.conf",
    "/dev/hugepages1G": "/etc/systemd/system/dev-hugepages1G.mount",
}


def _text(size: object, mode: object, gid: object) -> str:
    return f"pages of {size}, mode {mode}, group {gid}"


def _look(view: View) -> Items:
    mounts = view.items(READING)
    if isinstance(whole := mounts.get(""), Unread):
        return {"": whole}
    items: Items = {}
    for point in _expected(view):
        found = mounts.get(point)
        if isinstance(found, dict):
            items[point] = _text(found.get("pagesize"), found.get("mode"), found.get("gid"))
        else:
            items[point] = found if isinstance(found, Unread) else "not mounted"
    return items


def _expected(view: View) -> dict[str, JsonValue]:
    group = view.plan.spec.os.hugetlb_gid
    mode, gid = ("1777", 0) if group is None else ("1770", group)
    return {POINTS[size]: _text(size, mode, gid) for size in view.plan.hardware.hugepages}


RULE = Rule(
    id="hugepages.mount",
    title="planned huge pages are mounted for jobs",
    reading=READING,
    look=_look,
    expected_each=_expected,
    applies=lambda view: bool(view.plan.hardware.hugepages),
    owner="hugepages",
    explained_by=tuple(
        Cause("file.content", device=file, of_device=point) for point, file in UNIT_OF.items()
    ),
    source="kernel documentation, admin-guide/mm/hugetlbpage: mount options",
)
