"""Memory: size, huge pages, errors, swap."""

from __future__ import annotations

import os
import re
import stat
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, each, one
from lockstep.node.readers.tree import below, exists, found_by, line_of, number_of, rooted, text_of


def read_memory(request: Request, commands: Commands) -> Readings:
    """MemTotal."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", text_of("/proc/meminfo"), re.MULTILINE)
    if not match:
        raise Unread("/proc/meminfo: no MemTotal")
    return {"memory_mib": int(match.group(1)) // 1024}


def read_hugepages(request: Request, commands: Commands) -> Readings:
    """Persistent huge pages, all and free: size -> NUMA node -> pages."""
    every: dict[str, dict[str, int]] = {}
    free: dict[str, dict[str, Any]] = {}
    pattern = "/sys/devices/system/node/node[0-9]*/hugepages/hugepages-*kB"
    for path in found_by(pattern):
        match = re.search(r"/node(\d+)/hugepages/hugepages-(\d+)kB$", path)
        if match:
            mib = int(match.group(2)) >> 10
            size = f"{mib >> 10}G" if mib >= 1024 else f"{mib}M"
            node = match.group(1)
            every.setdefault(size, {})[node] = number_of(path + "/nr_hugepages")
            free.setdefault(size, {})[node] = one(number_of, path + "/free_hugepages")
    if not every:
        raise Unread("/sys/devices/system/node: no huge pages of any size")
    return {"hugepages": every, "hugepages.free": free}


HUGEPAGES_TRIED = "/run/lockstep/hugepages-tried"
"""Holds the counts asked of this boot's kernel: it is asked once, then a reboot has to do it."""


def read_hugepages_tried(request: Request, commands: Commands) -> Readings:
    """What a role asked this boot's kernel for, and all counts of now on one line."""
    pattern = "/sys/devices/system/node/node[0-9]*/hugepages/*/nr_hugepages"
    return {
        "hugepages.tried": {
            "tried": line_of(HUGEPAGES_TRIED) if exists(HUGEPAGES_TRIED) else "",
            "reached": ",".join(map(line_of, found_by(pattern))),
        }
    }


def read_hugepages_mounts(request: Request, commands: Commands) -> Readings:
    """Where huge pages are mounted: mount point -> page size, and the rights on its root."""

    def read(point: str) -> Any:
        try:
            about = os.stat(rooted(point))
        except OSError as error:
            raise Unread(f"{point}: {error.strerror}") from None
        # The kernel writes 1 GiB as 1024M.
        size = re.sub(r"^1024M$", "1G", sizes[point])
        return {"pagesize": size, "mode": f"{stat.S_IMODE(about.st_mode):o}", "gid": about.st_gid}

    sizes = {}
    for line in text_of("/proc/self/mounts").splitlines():
        words = line.split(" ")
        if len(words) > 3 and words[2] == "hugetlbfs":
            options = dict(word.partition("=")[::2] for word in words[3].split(","))
            sizes[words[1]] = options.get("pagesize", "")
    return {"hugepages.mounts": each(sorted(sizes), read)}


def read_memory_errors(request: Request, commands: Commands) -> Readings:
    """Memory errors that each controller counted since boot; empty where none are counted."""
    top = "/sys/devices/system/edac/mc"
    controllers = [name for name in below(top) if re.fullmatch(r"mc\d+", name)]
    return {
        "memory.uncorrected": each(controllers, lambda mc: number_of(f"{top}/{mc}/ue_count")),
        "memory.corrected": each(controllers, lambda mc: number_of(f"{top}/{mc}/ce_count")),
    }


def read_swap(request: Request, commands: Commands) -> Readings:
    """Swap areas by kind and size."""
    rows = [line.split() for line in text_of("/proc/swaps").splitlines()[1:]]
    return {"memory.swap": sorted(f"{row[1]} {int(row[2]) >> 10} MiB" for row in rows)}
