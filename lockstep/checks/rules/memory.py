"""Rules about memory, huge pages and swap."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, Cause, Effect
from lockstep.checks.compare import number
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    Pending,
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Text,
    as_text,
    each,
    same,
)
from lockstep.checks.rules._boot import STARTED_SO, key, own_kernel, started_otherwise, waits
from lockstep.checks.rules._peers import OTHER_KERNEL
from lockstep.checks.rules._rdma import counted
from lockstep.node.check.judge import Judgement
from lockstep.probe.record import Unread

KEYS = ("hugepages", "hugepagesz", "default_hugepagesz")


def _hugepages_items(view: View) -> Items:
    sizes = view.read("hugepages")
    if not isinstance(sizes, dict):
        return {"": sizes}
    return {
        f"{size} node{node}": pages
        for size, nodes in sizes.items()
        if isinstance(nodes, dict)
        for node, pages in nodes.items()
    }


def _hugepages_expected(view: View) -> dict[str, JsonValue]:
    """Return the plan; unplanned pages take memory from jobs, so zero is expected of them."""
    seen = {device: 0 for device in _hugepages_items(view) if device}
    return {
        **seen,
        **{
            f"{size} node{node}": pages
            for size, nodes in view.plan.hardware.hugepages.items()
            for node, pages in nodes.items()
        },
    }


def _hugepages_on_node(view: View) -> Iterator[Judgement]:
    """Yield the planned pools; pools without their kernel arguments wait for a reboot."""
    hardware = view.plan.hardware
    words = tuple(word for word in view.plan.kernel_args if key(word) in KEYS)
    for size, nodes in hardware.hugepages.items():
        for node, pages in nodes.items():
            yield Judgement(
                ("hugepages",),
                path=(size, str(node)),
                device=f"{size} node{node}",
                expected=pages,
                shown="{} pages",
                started_with=words,
            )


POINTS = {"2M": "/dev/hugepages", "1G": "/dev/hugepages1G"}
UNIT_OF = {
    "/dev/hugepages": "/etc/systemd/system/dev-hugepages.mount.d/50-lockstep.conf",
    "/dev/hugepages1G": "/etc/systemd/system/dev-hugepages1G.mount",
}


def _text(size: object, mode: object, gid: object) -> str:
    return f"pages of {size}, mode {mode}, group {gid}"


def _mount_items(view: View) -> Items:
    mounts = view.items("hugepages.mounts")
    if isinstance(whole := mounts.get(""), Unread):
        return {"": whole}
    items: Items = {}
    for point in _mount_expected(view):
        found = mounts.get(point)
        if isinstance(found, dict):
            items[point] = _text(found.get("pagesize"), found.get("mode"), found.get("gid"))
        else:
            items[point] = found if isinstance(found, Unread) else "not mounted"
    return items


def _mount_expected(view: View) -> dict[str, JsonValue]:
    group = view.plan.spec.os.hugetlb_gid
    mode, gid = ("1777", 0) if group is None else ("1770", group)
    return {POINTS[size]: _text(size, mode, gid) for size in view.plan.hardware.hugepages}


def _odd(view: View) -> str:
    """Return the slots whose module differs from most modules of the node."""
    modules = {slot: as_text(value) for slot, value in view.items("memory.modules").items()}
    usual = max(modules.values(), key=list(modules.values()).count, default="")
    odd = sorted(slot for slot, module in modules.items() if module != usual)
    return ", ".join(f"{slot}: {modules[slot]}" for slot in odd[:4])


RULES = (
    Rule(
        id="hugepages",
        claim="Each NUMA node has the planned number of huge pages of each size.",
        why=(
            "An uneven split forces a job to use memory of the far socket, although the total "
            "is right."
        ),
        blind="Pages that exist and are in use.",
        source="kernel documentation, admin-guide/mm/hugetlbpage",
        reading="hugepages",
        look=Look(_hugepages_items),
        expected=each(_hugepages_expected),
        text=Text(lambda value: f"{value} pages"),
        repair=by_role(
            "hugepages",
            pending=Pending(
                lambda view, device: waits(view, *KEYS),
                (
                    "The running kernel was started without the arguments that reserve them. A "
                    "kernel with these arguments lost its pages later: a deploy reserves them "
                    "again."
                ),
            ),
        ),
        tags=lambda view, device: started_otherwise(view, *KEYS),
        # Without a kernel of its own a node has the pages of its host.
        applies=own_kernel,
        on_node=OnNode(Local.HEALTH, _hugepages_on_node),
        explained_by=STARTED_SO,
    ),
    Rule(
        id="hugepages.mount",
        claim="Jobs can map huge pages of each planned size.",
        why="Reserved pages that no job can open are lost memory.",
        blind="Mounts elsewhere, and files in a mount. Shared memory (vm.hugetlb_shm_group).",
        source="kernel documentation, admin-guide/mm/hugetlbpage: mount options",
        reading="hugepages.mounts",
        look=Look(_mount_items),
        expected=each(_mount_expected),
        repair=by_role("hugepages"),
        applies=lambda view: bool(view.plan.hardware.hugepages),
        explained_by=tuple(
            Cause("file.content", device=file, of=Effect(device=point))
            for point, file in UNIT_OF.items()
        ),
    ),
    Rule(
        id="memory.at_least",
        claim="Every node has at least the memory of its hardware class.",
        why=(
            "A memory module that failed at boot gives no message. Slurm then drains the node, "
            "or jobs are killed."
        ),
        blind="Slower modules of the same size. Corrected errors.",
        source="proc_meminfo(5)",
        reading="memory_mib",
        kind=Kind.ABSOLUTE,
        expected=same(lambda view: view.plan.hardware.hardware.memory_mib),
        text=Text(lambda value: f"{value} MiB"),
        repair=by_hand(
            "on {node}: check dmidecode -t memory and the firmware's log; reseat or "
            "replace a module"
        ),
        on_node=OnNode(Local.HEALTH),
        explained_by=(Cause("memory.modules"),),
    ),
    Rule(
        id="memory.corrected",
        claim="Few memory errors are corrected.",
        why="A module that needs more and more corrections fails soon, and each one costs time.",
        blind="Which module it is: see the firmware's log. Machines without EDAC.",
        source="EDAC (ce_count); ten in 24 hours are the threshold of mcelog.conf for a module",
        reading="memory.corrected",
        kind=Kind.GROWTH,
        tolerance=10 / 24,
        text=Text(lambda value: f"{value} corrected errors"),
        severity=WARNING,
        repair=by_hand("when {node} is idle: replace the module that ras-mc-ctl --errors names"),
        explained_by=(Cause("memory.uncorrected", at=SAME_DEVICE),),
    ),
    Rule(
        id="memory.modules",
        claim="The memory modules have the same sizes and speeds in a hardware class.",
        why="A slower replacement module slows all channels of its socket.",
        blind=(
            "Makers and part numbers, which differ among equal modules. Which slot has which "
            "module."
        ),
        source="SMBIOS 7.18, memory device",
        reading="memory.modules",
        kind=Kind.MULTISET,
        peers=Peers.CLASS,
        text=Text(counted, detail=lambda view, device: _odd(view)),
        repair=by_hand(
            "on {node}: check dmidecode -t memory and the firmware's log; reseat or "
            "replace the module"
        ),
        explained_by=(Cause("platform.product"),),
    ),
    Rule(
        id="memory.swap",
        claim="All nodes of a hardware class have the same swap space.",
        why="A rank that is swapped out is a thousand times slower, and the job waits for it.",
        blind="How much is swapped out.",
        source="swapon(8), proc_swaps(5)",
        reading="memory.swap",
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: swapon --show; remove swap (swapoff, /etc/fstab), or add it, as on "
            "its peers"
        ),
    ),
    Rule(
        id="memory.total",
        claim="No node has less memory than its peers.",
        why="One failed module of many is within the margin of memory.at_least.",
        blind=(
            "A module that failed on most nodes. Memory that the kernel reserves, up to one "
            "percent."
        ),
        source="proc_meminfo(5)",
        reading="memory_mib",
        kind=Kind.WITHIN,
        peers=Peers.CLASS,
        tolerance=0.01,
        text=Text(lambda value: f"{number(value):.0f} MiB"),
        repair=by_hand(
            "on {node}: check dmidecode -t memory and the firmware's log; reseat or "
            "replace a module"
        ),
        explained_by=(Cause("memory.at_least"), Cause("memory.modules"), *OTHER_KERNEL),
    ),
    Rule(
        id="memory.uncorrected",
        claim="No uncorrected memory error since boot.",
        why="The program with that error ended, or computed with a wrong value.",
        blind=(
            "Machines without a driver for their memory controllers (EDAC), which count no errors."
        ),
        source="kernel documentation, driver-api/edac; ABI/testing/sysfs-devices-edac (ue_count)",
        reading="memory.uncorrected",
        expected=same(0),
        text=Text(lambda value: f"{value} uncorrected errors"),
        repair=by_hand(
            "drain {node}; replace the module that ras-mc-ctl --errors or the firmware's log names"
        ),
    ),
)
