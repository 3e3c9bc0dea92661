"""Huge pages per NUMA node: reserved at boot, and at once where the kernel still has the memory.

Owns     nr_hugepages of the running kernel, the hugetlbfs mounts, the group that may use them.
Reboot   what the running kernel could not give waits for one; the check says so.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.hugepages import group, mounted, running_hugepages

MOUNTS = {
    "2M": ("/dev/hugepages", "dev-hugepages.mount"),
    "1G": ("/dev/hugepages1G", "dev-hugepages1G.mount"),
}
"""Page size -> mount point and unit; the first is systemd's own, with a drop-in of ours."""


@role("Huge pages")
def apply(plan: NodePlan) -> None:
    """Ask the running kernel; what it cannot give waits for the boot arguments (boot_loader)."""
    files = managed(plan, None, "hugepages")
    managed_files(name="Files", files=files)
    group(
        name="Group",
        gid=plan.spec.os.hugetlb_gid if plan.hardware.hugepages else None,
        files=tuple(f.path for f in files if "/sysusers.d/" in f.path),
    )
    mounted(
        name="Mounts",
        points={MOUNTS[size][0]: MOUNTS[size][1] for size in plan.hardware.hugepages},
        gid=plan.spec.os.hugetlb_gid,
    )
    running_hugepages(name="Running kernel", wanted=plan.hardware.hugepages)
