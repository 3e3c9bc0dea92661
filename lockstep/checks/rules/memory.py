"""Rules about memory, huge pages and swap."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from lockstep.checks.compare import number
from lockstep.checks.context import View
from lockstep.checks.looks import made, of_map
from lockstep.checks.peer_settings import OTHER_KERNEL
from lockstep.checks.rule import (
    SAME_DEVICE,
    WARNING,
    Cause,
    Effect,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Pending,
    Rule,
    Text,
    as_text,
    by_hand,
    by_role,
    each,
    same,
)
from lockstep.checks.rules.boot import STARTED_SO, key, own_kernel, started_otherwise, waits
from lockstep.checks.rules.rdma import counted
from lockstep.node.check.judge import Judgement
from lockstep.plan.boot import HUGEPAGE_MOUNTS, SYSTEMDS

KEYS = ("hugepages", "hugepagesz", "default_hugepagesz")
OTHER_PAGES = Cause("kernel.page_size")
"""The sizes of huge pages follow from the kernel's page size."""


_hugepages_items = made(
    "hugepages",
    lambda view, sizes: {
        f"{size} node{node}": pages
        for size, nodes in sizes.items()
        if isinstance(nodes, dict)
        for node, pages in nodes.items()
    },
)


def _hugepages_on_node(view: View) -> Iterator[Judgement]:
    """Yield one check per huge page pool.

    A node that was booted without the planned huge page arguments skips the checks.
    """
    words = tuple(word for word in view.plan.system.kernel_args if key(word) in KEYS)
    for size, nodes in view.plan.hardware.hugepages.items():
        for node, pages in nodes.items():
            yield Judgement(
                ("hugepages",),
                path=(size, str(node)),
                device=f"{size} node{node}",
                expected=pages,
                shown="{} pages",
                started_with=words,
            )


UNIT_OF = {
    point: f"/etc/systemd/system/{unit}" + (".d/50-lockstep.conf" if size == SYSTEMDS else "")
    for size, (point, unit) in HUGEPAGE_MOUNTS.items()
}


def _text(size: object, mode: object, gid: object) -> str:
    return f"pages of {size}, mode {mode}, group {gid}"


def _mount_expected(view: View) -> dict[str, JsonValue]:
    group = view.plan.spec.os.hugetlb_gid
    mode, gid = ("1777", 0) if group is None else ("1770", group)
    return {
        HUGEPAGE_MOUNTS[size][0]: _text(size, mode, gid) for size in view.plan.hardware.hugepages
    }


def _odd(view: View) -> str:
    """Return up to four memory modules that differ from the most common one, with their slots."""
    modules = {slot: as_text(value) for slot, value in view.items("memory.modules").items()}
    usual = max(modules.values(), key=list(modules.values()).count, default="")
    odd = sorted(slot for slot, module in modules.items() if module != usual)
    return ", ".join(f"{slot}: {modules[slot]}" for slot in odd[:4])


RULES = (
    Rule(
        id="hugepages",
        claim="Each NUMA node has the planned number of huge pages of each size.",
        why=(
            "If the pages are split unevenly among NUMA nodes, a job gets memory on the other "
            "socket, even though the total is right."
        ),
        blind="Whether the pages are free or in use.",
        source="kernel documentation, admin-guide/mm/hugetlbpage",
        reading="hugepages",
        look=Look(_hugepages_items),
        expected=each(
            lambda view: {
                # Pages in unplanned pools take memory from jobs.
                **{device: 0 for device in _hugepages_items(view) if device},
                **{
                    f"{size} node{node}": pages
                    for size, nodes in view.plan.hardware.hugepages.items()
                    for node, pages in nodes.items()
                },
            }
        ),
        text=Text(lambda value: f"{value} pages"),
        repair=by_role(
            "hugepages",
            pending=Pending(
                lambda view, device: waits(view, *KEYS),
                (
                    "The running kernel was started without the arguments that reserve huge pages; "
                    "they take effect after the next reboot. If the pages were instead released "
                    "after boot, a deploy reserves them again."
                ),
            ),
        ),
        tags=lambda view, device: started_otherwise(view, *KEYS),
        # A node without its own kernel sees the pages of its host.
        applies=own_kernel,
        on_node=OnNode(Local.HEALTH, _hugepages_on_node),
        explained_by=(*STARTED_SO, OTHER_PAGES),
    ),
    Rule(
        id="hugepages.mount",
        claim="Jobs can map huge pages of each planned size.",
        why="Reserved pages that no job can map are wasted memory.",
        blind="Other mount points. Files on the mounts. Shared memory (vm.hugetlb_shm_group).",
        source="kernel documentation, admin-guide/mm/hugetlbpage: mount options",
        reading="hugepages.mounts",
        look=Look(
            made(
                "hugepages.mounts",
                lambda view, mounts: {
                    point: mounts.get(point, "not mounted") for point in _mount_expected(view)
                },
            ),
            pick=of_map(
                lambda seen: _text(seen.get("pagesize"), seen.get("mode"), seen.get("gid"))
            ),
        ),
        expected=each(_mount_expected),
        repair=by_role("hugepages"),
        applies=lambda view: bool(view.plan.hardware.hugepages),
        explained_by=(
            *(
                Cause("file.content", device=file, of=Effect(device=point))
                for point, file in UNIT_OF.items()
            ),
            OTHER_PAGES,
        ),
    ),
    Rule(
        id="memory.at_least",
        claim="Every node has at least as much memory as its hardware class declares.",
        why=(
            "A memory module that fails at boot disappears without a message. Slurm then drains "
            "the node, or jobs run out of memory."
        ),
        blind="Slower modules of the same size. Corrected errors.",
        source="proc_meminfo(5)",
        reading="memory_mib",
        kind=Kind.ABSOLUTE,
        expected=same(lambda view: view.plan.hardware.hardware.memory_mib),
        text=Text(lambda value: f"{value} MiB"),
        repair=by_hand(
            "on {node}: check dmidecode -t memory and the firmware's log; reseat or "
            "replace the failed module"
        ),
        on_node=OnNode(Local.HEALTH),
        explained_by=(Cause("memory.modules"),),
    ),
    Rule(
        id="memory.corrected",
        claim="Memory modules have few corrected errors.",
        why=(
            "A module whose error count keeps growing often fails soon, and each correction takes "
            "time."
        ),
        blind="Which module has the errors (the firmware's log names it). Machines without EDAC.",
        source="EDAC (ce_count); ten in 24 hours are the threshold of mcelog.conf for a module",
        reading="memory.corrected",
        kind=Kind.GROWTH,
        tolerance=10 / 24,
        text=Text(lambda value: f"{value} corrected errors"),
        severity=WARNING,
        repair=by_hand(
            "when {node} is idle, replace the memory module that ras-mc-ctl --errors reports"
        ),
        explained_by=(Cause("memory.uncorrected", at=SAME_DEVICE),),
    ),
    Rule(
        id="memory.modules",
        claim="All nodes of a hardware class have memory modules of the same sizes and speeds.",
        why="One slower module slows down all memory channels of its socket.",
        blind=(
            "Manufacturers and part numbers, which can differ between equivalent modules. Which "
            "module is in which slot."
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
        claim="All nodes of a hardware class have the same swap areas.",
        why=(
            "A rank whose memory is swapped out is a thousand times slower, and the job waits for "
            "it."
        ),
        blind="How much memory is swapped out.",
        source="swapon(8), proc_swaps(5)",
        reading="memory.swap",
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: run swapon --show, then add or remove swap space (swapoff, /etc/fstab) to "
            "match its peers"
        ),
    ),
    Rule(
        id="memory.total",
        claim="No node has less memory than its peers.",
        why="memory.at_least allows a margin that can hide one failed module among many.",
        blind=(
            "Memory that is missing on most nodes. Differences of up to one percent, caused by the "
            "kernel's own reservations."
        ),
        source="proc_meminfo(5)",
        reading="memory_mib",
        kind=Kind.WITHIN,
        peers=Peers.CLASS,
        tolerance=0.01,
        text=Text(lambda value: f"{number(value):.0f} MiB"),
        repair=by_hand(
            "on {node}: check dmidecode -t memory and the firmware's log; reseat or "
            "replace the failed module"
        ),
        explained_by=(Cause("memory.at_least"), Cause("memory.modules"), *OTHER_KERNEL),
    ),
    Rule(
        id="memory.uncorrected",
        claim="The node has had no uncorrected memory error since boot.",
        why="The program that hit the error was killed, or computed with a wrong value.",
        blind="Machines that count no errors because they lack an EDAC driver.",
        source="kernel documentation, driver-api/edac; ABI/testing/sysfs-devices-edac (ue_count)",
        reading="memory.uncorrected",
        expected=same(0),
        text=Text(lambda value: f"uncorrected errors: {value}"),
        repair=by_hand(
            "drain {node}; replace the memory module that ras-mc-ctl --errors or the firmware's "
            "log reports"
        ),
    ),
)
