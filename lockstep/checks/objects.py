"""The objects on a node to which findings refer, such as files, packages and units."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fnmatch import fnmatchcase


class ObjectKind(enum.Enum):
    """The kinds of objects that can differ between nodes."""

    FILE = "file"
    GPU = "gpu"
    INTERFACE = "interface"
    KERNEL_ARGUMENT = "kernel argument"
    KERNEL_MODULE = "kernel module"
    LISTENER = "listener"
    MOUNT = "mount"
    PACKAGE = "package"
    PACKET_FILTER = "packet filter"
    RDMA_DEVICE = "rdma device"
    SYSCTL = "sysctl"
    SYSTEM_FILE = "file of /sys or /proc"
    UNIT = "unit"
    USER = "user"


@dataclass(frozen=True)
class Object:
    """One object on a node, identified by its kind and name."""

    kind: ObjectKind
    name: str


OF_READINGS = {
    "files": ObjectKind.FILE,
    "cron.jobs": ObjectKind.FILE,
    "packages*": ObjectKind.PACKAGE,
    "units*": ObjectKind.UNIT,
    "cpuset.services": ObjectKind.UNIT,
    "limits.*": ObjectKind.UNIT,
    "services.*": ObjectKind.UNIT,
    "mounts.*": ObjectKind.MOUNT,
    "hugepages.mounts": ObjectKind.MOUNT,
    "storage.space": ObjectKind.MOUNT,
    "storage.inodes": ObjectKind.MOUNT,
    "net.*": ObjectKind.INTERFACE,
    "driver.xid": ObjectKind.GPU,
    "gpu.*": ObjectKind.GPU,
    "rdma.*": ObjectKind.RDMA_DEVICE,
    "sysctl.*": ObjectKind.SYSCTL,
    "kernel.files": ObjectKind.SYSTEM_FILE,
    "kernel.state": ObjectKind.SYSTEM_FILE,
    "kernel.modules": ObjectKind.KERNEL_MODULE,
    "listeners": ObjectKind.LISTENER,
}
"""Pattern of reading names -> kind of object; each item is named after its object."""

FILES = {
    "hosts.entries": "/etc/hosts",
    "munge.key_sha256": "/etc/munge/munge.key",
    "os.hostname": "/etc/hostname",
    "os.locale": "/etc/default/locale",
    "os.time_zone": "/etc/localtime",
    "os.machine_id": "/etc/machine-id",
    "slurm.conf_sha256": "/etc/slurm/slurm.conf",
}
"""Reading -> the one file that all of its items describe."""


def objects_of(reading: str, device: str) -> tuple[Object, ...]:
    """Return the objects that an item of a reading names; none if it is about the whole node."""
    if reading in FILES:
        return (Object(ObjectKind.FILE, FILES[reading]),)
    if not device:
        return ()
    return tuple(
        Object(kind, name)
        for pattern, kind in OF_READINGS.items()
        if fnmatchcase(reading, pattern)
        for name in device.split(", ")
    )
