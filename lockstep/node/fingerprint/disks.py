"""What a disk is for: equal nodes number their disks differently, and each has UUIDs of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from lockstep.node.readers.tree import below, line_of, resolved, rooted, rows_of

PARTITION = re.compile(r"(nvme\d+n\d+|mmcblk\d+|nbd\d+|md\d+|[a-z]+?d[a-z]+)(?:p?(\d+))?")
"""Names of disks, arrays and their partitions (Documentation/admin-guide/devices.rst). The kernel
numbers them as it finds them. Names of mapped devices are configured, so they stay."""
MAPPED = re.compile(r"/dev/(dm-\d+)")
UNUSED = "no mount"
LINKS = {"uuid": "UUID", "partuuid": "PARTUUID", "id": "identifier", "path": "path"}
"""Folders of links below /dev/disk that udev(7) makes (60-persistent-storage.rules) -> what the
names of the links are. Labels are configured."""
NAMED = re.compile(r"(?:dm|md)-name-.*")
"""Links whose names are configured."""
OF_AN_ARRAY = re.compile(r"md-uuid-([0-9a-f:]{35})")
"""Link to an array, with the UUID as in mdadm.conf(5)."""
OF_A_VOLUME = re.compile(r"lvm-pv-uuid-(\w{6}(?:-\w{4}){5}-\w{6})")
"""Link to a physical volume, with its UUID as in system.devices (lvmdevices(8))."""
SERIAL = re.compile(r"(?:nvme|ata|scsi|usb)-.+_((?=\D*\d)[0-9A-Za-z]{8,})(?:_\d+)?")
"""Link to a disk, with its model and its serial number; of NVMe also its namespace."""
WWN = re.compile(r"wwn-0x(\w+)|nvme-eui\.(\w+)")


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
        """Return the UUIDs, identifiers and paths of disks and partitions, and of arrays.

        A disk without a role of its own has that of the array or volume of which it is a part;
        else it is told by its model. So a UUID that belongs to no disk of this node remains.
        """
        found: dict[str, list[str]] = {}
        parts = self._parts()
        for kind, shown in LINKS.items():
            for link in below(f"/dev/disk/by-{kind}"):
                if NAMED.fullmatch(link):
                    continue
                role = self._identified(_target(f"/dev/disk/by-{kind}/{link}"), parts)
                if role is None:
                    continue
                values = [link]
                for pattern in (OF_AN_ARRAY, OF_A_VOLUME, SERIAL, WWN) if kind == "id" else ():
                    match = pattern.fullmatch(link)
                    if match:
                        values += filter(None, match.groups())
                found.setdefault(f"{shown} of {role}", []).extend(values)
        return found

    def _parts(self) -> dict[str, str]:
        """Return the role of each disk that is a part of an array or of a mapped device."""
        found: dict[str, str] = {}
        below_of = {name: below(f"/sys/block/{name}/slaves") for name in below("/sys/block")}
        for name, slaves in below_of.items():
            if slaves:
                shown = line_of(f"/sys/block/{name}/dm/name", "")
                place = self.roles.get(name) or self._place(f"/dev/mapper/{shown}")
                self._add(name, place, below_of, found)
        return found

    def _place(self, device: str) -> str:
        """Return the first mount point of a mapped device."""
        place = min((place for place, one in used() if one == device), default=UNUSED)
        return "root" if place == "/" else place

    def _add(
        self, name: str, place: str, below_of: dict[str, list[str]], found: dict[str, str]
    ) -> None:
        for slave in below_of.get(name, ()):
            match = PARTITION.fullmatch(slave)
            disk = match.group(1) if match else slave
            if disk not in found:
                found[disk] = place
                self._add(disk, place, below_of, found)

    def _identified(self, device: str, parts: dict[str, str]) -> str | None:
        """Return how a device is called in place of its identifiers; None if it is no disk."""
        role = self.role(device)
        if role.startswith("/dev/mapper/"):  # the name can have a UUID or the host's name in it
            return f"a mapped device below {self._place(role)}"
        if role != device:
            return role
        match = PARTITION.fullmatch(device.rpartition("/")[2])
        if match is None:
            return None
        disk, number = match.groups()
        if disk in parts:
            called = f"a disk below {parts[disk]}"
        else:
            model = line_of(f"/sys/block/{disk}/device/model", "") or "unknown model"
            called = f"a disk of model {model}"
        return f"partition {number} of {called}" if number else called


def escaped(found: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return identities of disks as they are, and as in names of units (systemd-escape(1))."""
    return {
        kind: [
            *values,
            *(v.replace("-", r"\x2d").replace(":", r"\x3a") for v in values if "-" in v),
        ]
        for kind, values in found.items()
    }


def _target(link: str) -> str:
    """Return the device of a link that udev(7) made, ``../../sda1``."""
    try:
        return "/dev/" + os.path.basename(os.readlink(rooted(link)))
    except OSError:
        return resolved(link)
