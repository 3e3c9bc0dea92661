"""Mounts and disks."""

from __future__ import annotations

import os
import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT, Readings, Request, each
from lockstep.node.readers.tree import below, exists, line_of, mounts, rooted, rows_of

SHARED = re.compile(
    r"nfs4?|lustre|beegfs|gpfs|ceph|cifs|wekafs|virtiofs|fuse\.(ceph|glusterfs|sshfs)"
)
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "f2fs")
NOT_DISKS = ("/run/", "/var/lib/containerd/", "/var/lib/docker/", "/var/lib/kubelet/")
"""Folders where container engines and the kubelet mount file systems."""
OWN_OPTIONS = ("clientaddr", "mountaddr", "mountport", "addr", "port")
"""Mount options that the kernel fills in; they differ from node to node."""
MOUNT_READINGS = (
    "mounts.shared",
    "mounts.local",
    "mounts.fstab",
    "storage.space",
    "storage.inodes",
)


def read_mounts(request: Request, commands: Commands) -> Readings:
    """Shared and local file systems, their usage, and whether fstab(5) entries are mounted."""
    shared: dict[str, str] = {}
    local: dict[str, str] = {}
    mounted = mounts()
    points = {point for _, point, _, _ in mounted}
    for source, point, kind, options in mounted:
        words = [word for word in options.split(",") if word.split("=")[0] not in OWN_OPTIONS]
        if SHARED.fullmatch(kind):
            shared[point] = f"{kind} {source} {','.join(sorted(words))}"
        elif kind in LOCAL and not point.startswith(NOT_DISKS):
            local[point] = words[0]
    listed = [
        row[1]
        for row in (rows_of("/etc/fstab") if exists("/etc/fstab") else ())
        if len(row) > 3
        and not row[0].startswith("#")
        and row[1].startswith("/")
        and not {"noauto", "x-systemd.automount"} & set(row[3].split(","))
    ]
    return {
        "mounts.shared": shared,
        "mounts.local": local,
        "mounts.fstab": {point: "mounted" if point in points else ABSENT for point in listed},
        "storage.space": each(sorted(local), lambda point: used(point, "blocks", "bavail")),
        "storage.inodes": each(sorted(local), lambda point: used(point, "files", "favail")),
    }


def used(point: str, every: str, left: str) -> float:
    """Return the percentage of a file system's blocks or inodes that is in use."""
    about = os.statvfs(rooted(point))
    total = getattr(about, "f_" + every)
    return round(100 - 100 * getattr(about, "f_" + left) / total, 1) if total else 0.0


def read_disks(request: Request, commands: Commands) -> Readings:
    """NVMe disks: model and firmware."""
    top, parts = "/sys/class/nvme", ("model", "firmware_rev")
    disks = each(below(top), lambda name: ", ".join(line_of(f"{top}/{name}/{f}") for f in parts))
    return {"storage.nvme": disks}
