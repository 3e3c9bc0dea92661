"""Kernel arguments and huge pages: what the boot loader has, what the kernel has."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

HUGEPAGES_TRIED = "/run/lockstep/hugepages-tried"
"""Holds the counts asked of this boot's kernel: it is asked once, then a reboot has to do it."""


class BootLoaderStale(FactBase[bool]):
    """Returns whether a drop-in is newer than grub.cfg (or grub.cfg is missing)."""

    @override
    def command(self, files: Iterable[str]) -> str:
        quoted = " ".join(shlex.quote(path) for path in files)
        return (
            f'for f in {quoted}; do if [ "$f" -nt /boot/grub/grub.cfg ]; then '
            "echo stale; fi; done; echo end"
        )

    @override
    def process(self, output: Iterable[str]) -> bool:
        return "stale" in list(output)


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
