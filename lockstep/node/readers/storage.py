"""Mounts and disks."""

from __future__ import annotations

import os
import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT, Readings, Request, Unread, each
from lockstep.node.readers.tree import below, exists, line_of, rooted, text_of

SHARED = re.compile(
    r"nfs4?|lustre|beegfs|gpfs|ceph|cifs|wekafs|virtiofs|fuse\.(ceph|glusterfs|sshfs)"
)
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "f2fs")
NOT_DISKS = ("/run/", "/var/lib/containerd/", "/var/lib/docker/", "/var/lib/kubelet/")
"""Where engines mount what belongs to containers."""
OWN_OPTIONS = ("clientaddr", "mountaddr", "mountport", "addr", "port")
"""Options that the kernel fills in, other ones on each node."""
MOUNT_READINGS = (
    *("mounts.shared", "mounts.local", "mounts.fstab", "storage.space", "storage.inodes"),
)


def read_mounts(request: Request, commands: Commands) -> Readings:
    """Shared file systems with their options, local ones with what is left, and fstab(5)."""
    shared: dict[str, str] = {}
    local: dict[str, str] = {}
    points = set()
    for line in text_of("/proc/self/mounts").splitlines():
        source, point, kind, options = line.split(" ")[:4]
        points.add(point)
        words = [word for word in options.split(",") if word.split("=")[0] not in OWN_OPTIONS]
        if SHARED.fullmatch(kind):
            shared[point] = f"{kind} {source} {','.join(sorted(words))}"
        elif kind in LOCAL and not point.startswith(NOT_DISKS):
            local[point] = words[0]
    table = text_of("/etc/fstab") if exists("/etc/fstab") else ""
    rows = [line.split() for line in table.splitlines() if line[:1] not in ("", "#")]
    listed = [
        row[1]
        for row in rows
        if len(row) > 3
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
    """Return which share of a local file system is taken, in percent."""
    try:
        about = os.statvfs(rooted(point))
    except OSError as error:
        raise Unread(f"{point}: {error.strerror}") from None
    total = getattr(about, "f_" + every)
    return round(100 - 100 * getattr(about, "f_" + left) / total, 1) if total else 0.0


def read_disks(request: Request, commands: Commands) -> Readings:
    """NVMe disks: model and firmware."""
    top = "/sys/class/nvme"

    def disk(name: str) -> str:
        return f"{line_of(f'{top}/{name}/model')}, {line_of(f'{top}/{name}/firmware_rev')}"

    return {"storage.nvme": each(below(top), disk)}
