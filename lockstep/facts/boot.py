"""Questions about kernel arguments, boot entries, the initramfs, and huge pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.facts.files import is_younger
from lockstep.node.readers.grub import ENTRIES as FOLDER
from lockstep.node.readers.memory import HUGEPAGES_TRIED as HUGEPAGES_TRIED
from lockstep.node.readers.reading import ABSENT
from lockstep.plan.boot import HUGEPAGE_FOLDERS
from lockstep.plan.reboot import absent
from lockstep.question import Question, Taken, Unreadable, question

MENU = "/boot/grub/grub.cfg"
NEXT, ENTRIES = "kernel.cmdline_persisted", "kernel.cmdline_entries"
NO_ENTRY = (
    f"no entries in {FOLDER}, so grubby cannot change kernel arguments. Next: make GRUB read its "
    "entries from that folder (GRUB_ENABLE_BLSCFG=true in /etc/default/grub), or declare "
    "boot_loader: none for this hardware class"
)


def in_grub(argument: str) -> str:
    """Quote the value of a kernel argument if it contains ";", which would end a GRUB command."""
    key, _, value = argument.partition("=")
    # Only the value is quoted: grubby finds an argument by the text before the first "=".
    return f"{key}='{value}'" if ";" in value else argument


@question("boot loader", NEXT)
def next_arguments(taken: Taken) -> tuple[str, ...]:
    """Ask for the kernel arguments of the next boot: those in the boot loader's default entry."""
    return tuple(taken[NEXT])


def menu_is_due(files: Iterable[str], args: tuple[str, ...]) -> Question[bool]:
    """Ask whether GRUB's menu is older than its source files or lacks kernel arguments.

    Args:
        files: the drop-ins in /etc/default/grub.d.
        args: kernel arguments that the next boot must have.
    """
    sources = tuple(files)

    def answer(taken: Taken) -> bool:
        # An outdated menu is not read, because its default entry may be unclear.
        if is_younger(taken, sources, taken.item("files.changed", MENU)):
            return True
        return bool(absent(args, tuple(taken[NEXT])))

    return Question("GRUB's menu", (NEXT, "files.changed"), answer, {"changed": (MENU, *sources)})


@question("boot entries", ENTRIES)
def boot_entries(taken: Taken) -> tuple[tuple[str, ...], ...]:
    """Ask for the kernel arguments of each grubby(8) entry and those of kernels installed later."""
    if not taken[ENTRIES]:
        raise Unreadable("boot entries", NO_ENTRY)
    return tuple(tuple(taken.item(ENTRIES, name)) for name in taken[ENTRIES])


def initramfs_is_due(files: Iterable[str]) -> Question[bool]:
    """Ask whether the running kernel's initramfs is older than at least one of these files."""
    sources = tuple(files)

    def answer(taken: Taken) -> bool:
        made = taken["kernel.initramfs"]
        return isinstance(made, str) and is_younger(taken, sources, made)

    readings = ("kernel.initramfs", "files.changed")
    return Question("initramfs", readings, answer, {"changed": sources})


@dataclass(frozen=True)
class HugepagesState:
    """Huge pages of the running kernel."""

    counts: dict[tuple[str, int], int]
    """(page size, NUMA node) -> number of pages."""
    tried: str
    """The last request since boot and the resulting counts; "" if there was no request."""
    reached: str = ""
    """The current page counts, in the format that ``REACHED`` prints."""


REACHED = (
    # Sorted as in the reading. Without huge page support there are no such files and no output.
    "export LC_ALL=C; "
    "cat /sys/devices/system/node/node[0-9]*/hugepages/*/nr_hugepages 2>/dev/null | paste -sd,"
)
"""Shell command that prints all page counts on one line, in the format of hugepages.tried."""


@question("huge pages", "hugepages", "hugepages.tried")
def hugepages_state(taken: Taken) -> HugepagesState:
    """Ask for the huge page counts per size and NUMA node, and for the last request since boot."""
    tried = taken["hugepages.tried"]
    # A kernel without huge page support has no counts. Any other reading that fails is an error.
    lacks_them = not tried["reached"] and taken.unread("hugepages") is not None
    counts = {} if lacks_them else taken["hugepages"]
    return HugepagesState(
        {
            (size, int(node)): pages
            for size, split in counts.items()
            if size in HUGEPAGE_FOLDERS
            for node, pages in split.items()
        },
        **tried,
    )


@dataclass(frozen=True)
class HugetlbMount:
    """The mode and GID of the root directory of a mounted hugetlbfs."""

    mode: str
    gid: int


def hugetlb_mounts(points: Iterable[str]) -> Question[dict[str, HugetlbMount]]:
    """Ask for the mode and GID of these mount points; those without a hugetlbfs are left out."""
    asked = tuple(points)

    def answer(taken: Taken) -> dict[str, HugetlbMount]:
        there = [point for point in asked if point in taken["hugepages.mounts"]]
        read = {point: taken.item("hugepages.mounts", point) for point in there}
        return {point: HugetlbMount(one["mode"], one["gid"]) for point, one in read.items()}

    return Question("hugetlbfs", ("hugepages.mounts",), answer)


def group_of(gid: int) -> Question[str]:
    """Ask for the name of the group with this GID; "" if no group has it."""

    def answer(taken: Taken) -> str:
        name = str(taken.item("os.groups", str(gid)))
        return "" if name == ABSENT else name

    return Question("group", ("os.groups",), answer, {"groups": (str(gid),)})
