"""Kernel arguments and huge pages: what the boot loader has, what the kernel has."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase
from typing_extensions import override

from lockstep.facts.reading import Question, Taken
from lockstep.node.readers.memory import HUGEPAGES_TRIED as HUGEPAGES_TRIED
from lockstep.node.readers.reading import ABSENT

MENU = "/boot/grub/grub.cfg"
LATER = "/etc/kernel/cmdline"
"""Arguments that kernel-install(8) gives to kernels that are installed later."""


def in_grub(argument: str) -> str:
    """Return a kernel argument as GRUB's script language takes it: ";" would end the command."""
    key, _, value = argument.partition("=")
    # Only the value is quoted: grubby finds an argument by what stands before the first "=".
    return f"{key}='{value}'" if ";" in value else argument


def arguments(text: str) -> tuple[str, ...]:
    """Return the kernel arguments in a piece of GRUB's script language, quotes removed."""
    try:
        return tuple(shlex.split(text))
    except ValueError:  # a lone quote: GRUB itself would stumble over it too
        return tuple(text.split())


@dataclass(frozen=True)
class BootLoaderState:
    """What the next boot will have, as far as the boot loader's menu says."""

    args: tuple[str, ...]
    """Kernel arguments of the first entry."""
    stale: bool
    """A file the menu is made from is newer than the menu."""


class BootLoader(FactBase[BootLoaderState]):
    """Returns the kernel arguments of the boot loader's menu, and whether it is out of date."""

    @override
    def command(self, files: Iterable[str]) -> str:
        quoted = " ".join(shlex.quote(path) for path in files)
        return (
            f'for f in {quoted}; do if [ "$f" -nt {MENU} ]; then echo stale; fi; done; '
            f"if [ -r {MENU} ]; then grep -m1 -E '^[[:space:]]*linux' {MENU} | sed 's/^/args /'; "
            "fi; echo end"
        )

    @override
    def process(self, output: Iterable[str]) -> BootLoaderState:
        lines = list(output)
        menu = [arguments(line)[3:] for line in lines if line.startswith("args ")]
        return BootLoaderState(menu[0] if menu else (), "stale" in lines)


class BootEntries(FactBase[tuple[tuple[str, ...], ...]]):
    """Returns the kernel arguments of each entry that grubby(8) manages, and of later kernels."""

    @override
    def command(self) -> str:
        return (
            f"grubby --info=ALL && "
            f'if [ -r {LATER} ]; then echo "args=\\"$(paste -sd\' \' {LATER})\\""; fi'
        )

    @override
    def process(self, output: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        said = [line.strip() for line in output if line.startswith("args=")]
        return tuple(arguments(line.removeprefix('args="').removesuffix('"')) for line in said)


@dataclass(frozen=True)
class HugepagesState:
    """Huge pages of the running kernel."""

    counts: dict[tuple[str, int], int]
    """(size, NUMA node) -> pages."""
    tried: str
    """What this boot's kernel was asked for and gave; "" when nothing."""
    reached: str = ""
    """What ``REACHED`` prints now."""


SIZES = {"2M": "hugepages-2048kB", "1G": "hugepages-1048576kB"}
"""Folder names below /sys/devices/system/node/node*/hugepages (kernel doc, hugetlbpage)."""


REACHED = (
    # In the order of the reading. A kernel without huge pages has no such files: nothing.
    "export LC_ALL=C; "
    "cat /sys/devices/system/node/node[0-9]*/hugepages/*/nr_hugepages 2>/dev/null | paste -sd,"
)
"""Shell command: all counts on one line. Only ever compared with the reading of the same."""


def hugepages_state() -> Question[HugepagesState]:
    """Ask for the huge pages per size and NUMA node."""

    def answer(taken: Taken) -> HugepagesState:
        tried = taken["hugepages.tried"]
        # A kernel without huge pages has no counts; any other reason is an error of this node.
        lacks_them = not tried["reached"] and taken.unread("hugepages") is not None
        counts = {} if lacks_them else taken["hugepages"]
        return HugepagesState(
            {
                (size, int(node)): pages
                for size, split in counts.items()
                if size in SIZES
                for node, pages in split.items()
            },
            tried["tried"],
            tried["reached"],
        )

    return Question("huge pages", ("hugepages", "hugepages.tried"), answer)


@dataclass(frozen=True)
class HugetlbMount:
    """One mounted hugetlbfs: the rights on its root."""

    mode: str
    gid: int


def hugetlb_mounts(points: Iterable[str]) -> Question[dict[str, HugetlbMount]]:
    """Ask for mount point -> rights, of those that are mounted."""
    asked = tuple(points)

    def answer(taken: Taken) -> dict[str, HugetlbMount]:
        there = [point for point in asked if point in taken["hugepages.mounts"]]
        found = {point: taken.item("hugepages.mounts", point) for point in there}
        return {point: HugetlbMount(one["mode"], one["gid"]) for point, one in found.items()}

    return Question("hugetlbfs", ("hugepages.mounts",), answer)


def group_of(gid: int) -> Question[str]:
    """Ask for the name of the group with a number; "" when no group has it."""

    def answer(taken: Taken) -> str:
        name = str(taken.item("os.groups", str(gid)))
        return "" if name == ABSENT else name

    return Question("group", ("os.groups",), answer, {"groups": (str(gid),)})
