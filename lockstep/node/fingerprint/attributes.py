"""What a file has beside its content: owner, attributes of chattr(1), capabilities, ACLs."""

from __future__ import annotations

import fcntl
import os
import struct
from functools import lru_cache

from lockstep.node.fingerprint.entry import Fields, content
from lockstep.node.readers import tree

FS_IOC_GETFLAGS = 0x80086601
"""ioctl_iflags(2), on x86 and ARM."""
FLAGS = {
    0x4: "c", 0x8: "S", 0x10: "i", 0x20: "a", 0x40: "d", 0x80: "A", 0x10000: "D", 0x800000: "C",
}  # fmt: skip
"""Attributes that somebody sets (linux/fs.h), by the letters of chattr(1)."""
SETTABLE = sum(FLAGS)
CAPABILITIES = (
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
    "setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw",
    "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
    "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod",
    "lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog",
    "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
)  # fmt: skip
"""In the order of linux/capability.h."""
CAPABILITY = "security.capability"
ACLS = {"system.posix_acl_access": "acl", "system.posix_acl_default": "default_acl"}
TAGS = {1: "user", 2: "user", 4: "group", 8: "group", 16: "mask", 32: "other"}
"""linux/posix_acl.h"""
OF_THE_FILE_SYSTEM = ("trusted.overlay.", "security.evm", "security.ima", "btrfs.", "system.nfs4")
"""Extended attributes that a file system or the kernel maintains."""


@lru_cache(maxsize=2)
def _names(path: str, _root: str) -> dict[int, str]:
    names: dict[int, str] = {}
    for line in tree.text_of(path, "").splitlines():
        words = line.split(":")
        if len(words) > 2 and words[2].isdigit():
            names.setdefault(int(words[2]), words[0])
    return names


def forget_names() -> None:
    """Read users and groups anew: a process may outlive their change."""
    _names.cache_clear()
    owner_of.cache_clear()


def user_of(number: int) -> str:
    """Return the name of a local user; the number if there is none. No other source is asked."""
    return _names("/etc/passwd", tree.ROOT).get(number, str(number))


def group_of(number: int) -> str:
    """Return the name of a local group; the number if there is none."""
    return _names("/etc/group", tree.ROOT).get(number, str(number))


@lru_cache(maxsize=1024)
def owner_of(user: int, group: int) -> str:
    """Return an owner and group by name, as chown(1) takes them."""
    return f"{user_of(user)}:{group_of(group)}"


def flags_of(file: int) -> str:
    """Return the attributes of an open file by their letters; empty if there are none."""
    try:
        answer = fcntl.ioctl(file, FS_IOC_GETFLAGS, b"\0" * 8)
    except OSError:  # the file system has none
        return ""
    flags = int.from_bytes(answer[:4], "little") & SETTABLE
    return "".join(letter for bit, letter in FLAGS.items() if flags & bit) if flags else ""


def add_attributes(file: int, fields: Fields) -> None:
    """Add an open file's extended attributes to its fields."""
    flags = flags_of(file)
    if flags:
        fields["flags"] = flags
    try:
        names = os.listxattr(file)
    except OSError:  # the file system has none
        return
    for name in names:
        if not name.startswith(OF_THE_FILE_SYSTEM):
            try:
                value = os.getxattr(file, name)
            except OSError:
                continue
            if name == CAPABILITY:
                fields["capabilities"] = capabilities(value)
            elif name in ACLS:
                fields[ACLS[name]] = acl(value)
            else:
                fields[f"xattr {name}"] = content(value.rstrip(b"\0"))


def capabilities(value: bytes) -> str:
    """Return the capabilities of a file (struct vfs_cap_data), as cap_to_text(3) writes them."""
    if len(value) not in (20, 24):  # versions 2 and 3
        return value.hex()
    magic, low, low_inherited, high, high_inherited = struct.unpack("<5I", value[:20])
    permitted, inherited = low | high << 32, low_inherited | high_inherited << 32
    found = []
    for number in range(64):
        bit = 1 << number
        if (permitted | inherited) & bit:
            letters = "e" * (magic & 1) + "i" * bool(inherited & bit) + "p" * bool(permitted & bit)
            known = number < len(CAPABILITIES)
            found.append(f"cap_{CAPABILITIES[number] if known else number}={letters}")
    root = int.from_bytes(value[20:], "little")
    return ",".join(sorted(found)) + (f" of root {root}" if root else "")


def acl(value: bytes) -> str:
    """Return an access control list (linux/posix_acl_xattr.h), as getfacl(1) writes it."""
    if len(value) % 8 != 4 or value[:4] != b"\2\0\0\0":
        return value.hex()
    found = []
    for tag, rights, number in struct.iter_unpack("<HHI", value[4:]):
        name = {2: user_of, 8: group_of}.get(tag, lambda _: "")(number)
        letters = "".join(c if rights & bit else "-" for c, bit in zip("rwx", (4, 2, 1)))  # noqa: B905
        found.append(f"{TAGS.get(tag, tag)}:{name}:{letters}")
    return ",".join(sorted(found))


def read_open(file: int, size: int, most: int, edge: int) -> bytes | str:
    """Return the content of an open file, or of a large one its size and the hash of its ends.

    Args:
        file: descriptor of the file.
        size: its size in bytes.
        most: the largest content that is read whole.
        edge: bytes at the beginning and at the end of a larger one.
    """
    if size <= most:
        data = os.read(file, size + 1)
        if len(data) == size:
            return data
        parts = [data]  # it grew, or is of a file system that reports no size
        while parts[-1] and sum(map(len, parts)) <= most:
            parts.append(os.read(file, most))
        return b"".join(parts)
    ends = os.pread(file, edge, 0) + b"\0" + os.pread(file, edge, size - edge)
    return f"{size} bytes, ends: {content(ends)}"
