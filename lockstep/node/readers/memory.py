"""Memory: size, huge pages, errors, swap, modules."""

from __future__ import annotations

import os
import re
import struct
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, each, one
from lockstep.node.readers.tree import (
    below,
    bytes_of,
    exists,
    found_by,
    found_in,
    line_of,
    mode_of,
    mounts,
    number_of,
    rooted,
    rows_of,
)


def read_memory(request: Request, commands: Commands) -> Readings:
    """The size of the node's memory (MemTotal in /proc/meminfo), in MiB."""
    kib = found_in("/proc/meminfo", r"^MemTotal:\s+(\d+) kB", "MemTotal line")
    return {"memory_mib": int(kib) // 1024}


def read_hugepages(request: Request, commands: Commands) -> Readings:
    """Persistent huge pages, total and free: page size -> NUMA node -> number of pages."""
    every: dict[str, dict[str, int]] = {}
    free: dict[str, dict[str, Any]] = {}
    for path in found_by("/sys/devices/system/node/node[0-9]*/hugepages/hugepages-*kB"):
        node, kib = re.findall(r"\d+", path)
        mib = int(kib) >> 10
        # arm64 has also pages of 64 KiB (with a kernel of 4 KiB pages).
        size = f"{mib >> 10}G" if mib >= 1024 else f"{mib}M" if mib else f"{kib}K"
        every.setdefault(size, {})[node] = number_of(path + "/nr_hugepages")
        free.setdefault(size, {})[node] = one(number_of, path + "/free_hugepages")
    if not every:
        raise Unread(
            "/sys/devices/system/node/node*/hugepages: not found; "
            "this kernel does not support huge pages"
        )
    return {"hugepages": every, "hugepages.free": free}


HUGEPAGES_TRIED = "/run/lockstep/hugepages-tried"
"""File that records which huge pages a role has requested since boot, and the counts that resulted.
While the counts stay the same, the role does not repeat the request."""


def read_hugepages_tried(request: Request, commands: Commands) -> Readings:
    """The huge pages that a role requested since the last boot, and the current counts."""
    counts = found_by("/sys/devices/system/node/node[0-9]*/hugepages/*/nr_hugepages")
    tried, reached = line_of(HUGEPAGES_TRIED, ""), ",".join(map(line_of, counts))
    return {"hugepages.tried": {"tried": tried, "reached": reached}}


def read_hugepages_mounts(request: Request, commands: Commands) -> Readings:
    """Mount points of hugetlbfs, each with its page size and the mode and GID of its root."""

    options = {point: given for _, point, kind, given in mounts() if kind == "hugetlbfs"}

    def read(point: str) -> Any:
        about = os.stat(rooted(point))
        size = dict(word.partition("=")[::2] for word in options[point].split(",")).get("pagesize")
        # The kernel writes 1 GiB as 1024M.
        size = "1G" if size == "1024M" else size or ""
        return {"pagesize": size, "mode": mode_of(about), "gid": about.st_gid}

    return {"hugepages.mounts": each(sorted(options), read)}


def read_memory_errors(request: Request, commands: Commands) -> Readings:
    """Memory errors since boot per memory controller; empty if the kernel has no EDAC counters."""
    top = "/sys/devices/system/edac/mc"
    controllers = [name for name in below(top) if re.fullmatch(r"mc\d+", name)]
    return {
        "memory.uncorrected": each(controllers, lambda mc: number_of(f"{top}/{mc}/ue_count")),
        "memory.corrected": each(controllers, lambda mc: number_of(f"{top}/{mc}/ce_count")),
    }


def read_swap(request: Request, commands: Commands) -> Readings:
    """Swap areas, each with its type and size."""
    rows = rows_of("/proc/swaps", after=1)
    return {"memory.swap": sorted(f"{row[1]} {int(row[2]) >> 10} MiB" for row in rows)}


DMI_TABLE = "/sys/firmware/dmi/tables/DMI"
MEMORY_DEVICE = 17


def read_memory_modules(request: Request, commands: Commands) -> Readings:
    """Size and speed of the module in each memory slot (SMBIOS specification, 7.18)."""
    if not exists(DMI_TABLE):
        return {"memory.modules": {}}
    table = bytes_of(DMI_TABLE)
    modules: dict[str, str] = {}
    start = 0
    while start + 4 <= len(table):
        kind, length = table[start], table[start + 1]
        end = table.find(b"\0\0", start + length)
        if end < 0 or length < 4:
            break
        if kind == MEMORY_DEVICE and length >= 0x17:
            slot, module = memory_module(table[start : start + length], table[start + length : end])
            modules[f"{slot} #{len(modules)}" if slot in modules else slot] = module
        start = end + 2
    return {"memory.modules": modules}


def memory_module(fields: bytes, texts: bytes) -> tuple[str, str]:
    """Return the slot that a table entry describes, and the memory module in that slot.

    Args:
        fields: the formatted area of the entry.
        texts: the strings after that area, to which the fields refer by number, counting from 1.
    """
    size, locator, bank = struct.unpack_from("<H2xBB", fields, 0x0C)
    speed = struct.unpack_from("<H", fields, 0x15)[0]
    if len(fields) >= 0x22:
        speed = struct.unpack_from("<H", fields, 0x20)[0] or speed  # the configured speed
    if size == 0x7FFF and len(fields) >= 0x20:
        size = struct.unpack_from("<I", fields, 0x1C)[0] & 0x7FFFFFFF
    elif size & 0x8000:
        size = (size & 0x7FFF) // 1024  # in KiB
    labels = [""] + [text.decode("latin-1").strip() for text in texts.split(b"\0")]
    names = [labels[number] for number in (bank, locator) if 0 < number < len(labels)]
    return " ".join(filter(None, names)), f"{size} MiB, {speed} MT/s" if size else "empty"
