"""Creates empty shared libraries that ldconfig(8) accepts."""

import struct

_BASE = 0x1000
_LOAD, _DYNAMIC = 1, 2
_NULL, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 0, 5, 6, 10, 11, 14


def shared_object(soname: str) -> bytes:
    """Return an x86-64 ELF file that contains only its soname (elf(5))."""
    strings = b"\0" + soname.encode() + b"\0"
    strings += bytes(-len(strings) % 8)
    symbols = bytes(24)
    headers = 64 + 2 * 56
    at_symbols = headers + len(strings)
    at_dynamic = at_symbols + len(symbols)
    dynamic = b"".join(
        struct.pack("<QQ", tag, value)
        for tag, value in (
            (_SONAME, 1),
            (_STRTAB, _BASE + headers),
            (_SYMTAB, _BASE + at_symbols),
            (_STRSZ, len(strings)),
            (_SYMENT, 24),
            (_NULL, 0),
        )
    )
    size = at_dynamic + len(dynamic)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    # Type: shared object (3), machine: x86-64 (62); no sections.
    start = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    load = struct.pack("<IIQQQQQQ", _LOAD, 6, 0, _BASE, _BASE, size, size, 0x1000)
    where = _BASE + at_dynamic
    found = struct.pack(
        "<IIQQQQQQ", _DYNAMIC, 6, at_dynamic, where, where, len(dynamic), len(dynamic), 8
    )
    return identity + start + load + found + strings + symbols + dynamic
