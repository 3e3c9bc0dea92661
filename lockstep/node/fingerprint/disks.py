"""What a disk is for: equal nodes number their disks differently, and each has UUIDs of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lockstep.node.readers.tree import below, line_of, resolved, rows_of

PARTITION = re.compile(r"(nvme\d+n\d+|mmcblk\d+|nbd\d+|md\d+|[a-z]+?d[a-z]+)(?:p?(\d+))?")
"""Names of disks, arrays and their partitions (Documentation/admin-guide/devices.rst). The kernel
numbers them as it finds them. Names of mapped devices are configured, so they stay."""
MAPPED = re.compile(r"/dev/(dm-\d+)")
LINKS = ("uuid", "partuuid")


def mount_rows() -> list[tuple[list[str], list[str]]]:
    """Return the words before and after the hyphen in each line of proc_pid_mountinfo(5).

    The words before it are: mount ID, parent ID, device, root, mount point, options, and optional
    fields; those after it are type, source, and options of the super block.
    """
    found = []
    for words in rows_of("/proc/self/mountinfo"):
        end = words.index("-", 6)
        found.append((words[:end], words[end + 1 :]))
    return found


def plain(word: str) -> str:
    """Return a word of mountinfo or fstab without octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), word)


def used() -> Iterable[tuple[str, str]]:
    """Yield the mount points and swap areas that use a device, each with the device."""
    for before, after in mount_rows():
        if len(after) > 1 and after[1].startswith("/dev/"):
            yield plain(before[4]), after[1]
    for words in rows_of("/proc/swaps", after=1):
        if words[0].startswith("/dev/"):
            yield "swap", words[0]


class Disks:
    """The roles of this node's disks."""

    def __init__(self) -> None:
        """Find the role of each disk: the first of its mount points."""
        self.roles: dict[str, str] = {}
        # The root file system gives its disk the role even if a shorter path were bound.
        for place, device in sorted(used(), key=lambda one: (one[0] == "swap", *one)):
            match = PARTITION.fullmatch(device[len("/dev/") :])
            if match:
                self.roles.setdefault(match.group(1), "root" if place == "/" else place)

    def role(self, device: str) -> str:
        """Return a device as a part of the disk with its role; the same text if it has none.

        A mapped device is told by its name (/proc/swaps has its number).
        """
        mapped = MAPPED.fullmatch(device)
        if mapped:
            name = line_of(f"/sys/block/{mapped.group(1)}/dm/name", "")
            return f"/dev/mapper/{name}" if name else device
        match = PARTITION.fullmatch(device.rpartition("/")[2]) if "/dev/" in device else None
        role = self.roles.get(match.group(1)) if match else None
        if match is None or role is None:
            return device
        disk = f"disk of role {role}"
        return f"partition {match.group(2)} of the {disk}" if match.group(2) else disk

    def identities(self) -> dict[str, list[str]]:
        """Return the UUIDs of file systems and partitions on disks with a role."""
        found: dict[str, list[str]] = {}
        for kind in LINKS:
            for name in below(f"/dev/disk/by-{kind}"):
                device = resolved(f"/dev/disk/by-{kind}/{name}")
                role = self.role(device)
                if role != device:
                    found.setdefault(f"{kind.upper()} of {role}", []).append(name)
        return found
