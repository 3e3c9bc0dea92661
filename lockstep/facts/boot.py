"""Kernel arguments and huge pages: what the boot loader has, what the kernel has."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

HUGEPAGES_TRIED = "/run/lockstep/hugepages-tried"
"""Holds the counts asked of this boot's kernel: it is asked once, then a reboot has to do it."""


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
    # A kernel without huge pages has no such files, and prints nothing.
    "cat /sys/devices/system/node/node[0-9]*/hugepages/*/nr_hugepages 2>/dev/null | paste -sd,"
)
"""Shell command: all counts on one line. Only ever compared with its own earlier answer."""


class Hugepages(FactBase[HugepagesState]):
    """Returns the huge pages per size and NUMA node."""

    @override
    def command(self) -> str:
        return (
            "for f in /sys/devices/system/node/node[0-9]*/hugepages/*/nr_hugepages; do "
            'if [ -r "$f" ]; then echo "$f $(cat "$f")"; fi; done; '
            f'echo "reached $({REACHED})"; echo "tried $(cat {HUGEPAGES_TRIED} 2>/dev/null)"'
        )

    @override
    def process(self, output: Iterable[str]) -> HugepagesState:
        names = {folder: size for size, folder in SIZES.items()}
        counts: dict[tuple[str, int], int] = {}
        said = {"tried": "", "reached": ""}
        for line in output:
            where, _, value = line.partition(" ")
            if where in said:
                said[where] = value
                continue
            parts = where.split("/")
            try:
                if parts[7] in names:
                    node = int(parts[5].removeprefix("node"))
                    counts[names[parts[7]], node] = int(value)
            except (IndexError, ValueError) as error:
                raise FactProcessError(f"huge pages, unexpected line {line!r}") from error
        return HugepagesState(counts, said["tried"], said["reached"])


@dataclass(frozen=True)
class HugetlbMount:
    """One mounted hugetlbfs: the rights on its root."""

    mode: str
    gid: int


class HugetlbMounts(FactBase[dict[str, HugetlbMount]]):
    """Returns mount point -> rights, of those asked for that are mounted."""

    @override
    def command(self, points: Iterable[str]) -> str:
        quoted = " ".join(shlex.quote(point) for point in points)
        return (
            f'for p in {quoted}; do if findmnt -n -t hugetlbfs "$p" >/dev/null; then '
            'echo "$p $(stat -c \'%a %g\' "$p")"; fi; done; echo end'
        )

    @override
    def process(self, output: Iterable[str]) -> dict[str, HugetlbMount]:
        rows = [line.split() for line in output if line != "end"]
        return {point: HugetlbMount(mode, int(gid)) for point, mode, gid in rows}


class GroupOf(FactBase[str]):
    """Returns the name of the group with a number; "" when no group has it."""

    @override
    def command(self, gid: int) -> str:
        return f'echo "group $(getent group {gid} | cut -d: -f1)"'

    @override
    def process(self, output: Iterable[str]) -> str:
        return next(iter(output)).removeprefix("group").strip()
