"""What the firmware's tables (SMBIOS) say of the machine."""

from __future__ import annotations

import struct

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, each
from lockstep.node.readers.tree import bytes_of, exists, said

DMI = ("sys_vendor", "product_name", "board_name", "bios_vendor", "bios_version", "bios_date")


def read_platform(request: Request, commands: Commands) -> Readings:
    """What the firmware says of the machine and of itself."""
    return {"platform": each(list(DMI), lambda name: said(f"/sys/class/dmi/id/{name}"))}


DMI_TABLE = "/sys/firmware/dmi/tables/DMI"
MEMORY_DEVICE = 17


def read_memory_modules(request: Request, commands: Commands) -> Readings:
    """Slot -> size and speed of its module, from the firmware's own table (SMBIOS 7.18)."""
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
    """Return slot and module of one entry; its texts follow it, counted from 1."""
    size, locator, bank = struct.unpack_from("<H2xBB", fields, 0x0C)
    speed = struct.unpack_from("<H", fields, 0x15)[0]
    if len(fields) >= 0x22:
        speed = struct.unpack_from("<H", fields, 0x20)[0] or speed  # what it is set to
    if size == 0x7FFF and len(fields) >= 0x20:
        size = struct.unpack_from("<I", fields, 0x1C)[0] & 0x7FFFFFFF
    elif size & 0x8000:
        size = (size & 0x7FFF) // 1024  # in KiB
    said_by = [""] + [text.decode("latin-1").strip() for text in texts.split(b"\0")]
    names = [said_by[number] for number in (bank, locator) if 0 < number < len(said_by)]
    return " ".join(filter(None, names)), f"{size} MiB, {speed} MT/s" if size else "empty"
