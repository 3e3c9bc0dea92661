"""Mounts and swap areas on a small tree of files."""

from __future__ import annotations

import pytest

from lockstep.node.fingerprint.disks import Disks, escaped
from lockstep.node.fingerprint.entry import Fields
from lockstep.node.fingerprint.exempt import by_domain, without_exceptions
from lockstep.node.fingerprint.mounts import (
    EXCEPTIONS_OF_MOUNT,
    read_mounts,
    read_running_mounts,
    read_swaps,
    sized,
)
from lockstep.node.readers.commands import Commands
from tests.probe.test_collect import Node, node

__all__ = ["node"]

ROOT = "21 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme1n1p2 rw,errors=remount-ro"
SCRATCH = "22 21 259:9 / /scratch rw,noatime shared:2 - xfs /dev/nvme0n1 rw,attr2,noquota"


def mounted(node: Node, *lines: str) -> None:
    node.file("/proc/self/mountinfo", "\n".join((ROOT, *lines)) + "\n")
    if not (node.root / "proc/swaps").exists():
        node.file("/proc/swaps", "Filename Type Size Used Priority\n")


def mounts() -> dict[str, Fields]:
    table = by_domain(EXCEPTIONS_OF_MOUNT)
    kept = {}
    for entry in read_mounts({}, Commands()):
        fields = without_exceptions("mount", entry, table)
        if fields is not None:
            assert entry.name not in kept
            kept[entry.name] = fields
    return kept


def running() -> dict[str, Fields]:
    return {entry.name: entry.fields for entry in read_running_mounts({}, Commands())}


def test_a_mount_has_its_source_options_and_propagation(node: Node) -> None:
    mounted(node, SCRATCH)
    assert mounts() == {
        "/": {
            "type": "ext4",
            "source": "partition 2 of the disk of role root",
            "options": "relatime",
            "super_options": "errors=remount-ro",
            "propagation": "shared",
        },
        "/scratch": {
            "type": "xfs",
            "source": "disk of role /scratch",
            "options": "noatime",
            "super_options": "attr2,noquota",
            "propagation": "shared",
        },
    }


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ("rw,noatime", "rw,relatime", "options"),
        ("rw,noatime", "ro,noatime", "options"),
        ("xfs", "ext4", "type"),
        ("shared:2", "master:2", "propagation"),
        ("noquota", "prjquota", "super_options"),
        ("/dev/nvme0n1", "/dev/mapper/vg-scratch", "source"),
        ("259:9 /", "259:9 /sub", "folder"),
    ],
)
def test_each_field_is_seen(node: Node, before: str, after: str, field: str) -> None:
    mounted(node, SCRATCH)
    first = mounts()["/scratch"]
    mounted(node, SCRATCH.replace(before, after))
    second = mounts()["/scratch"]
    assert [name for name in {**first, **second} if first.get(name) != second.get(name)] == [field]


def test_numbers_of_disks_and_groups_make_no_difference(node: Node) -> None:
    mounted(node, SCRATCH)
    first = mounts()
    swapped = [
        line.replace("nvme0n1", "X").replace("nvme1n1", "nvme0n1").replace("X", "nvme3n1")
        for line in (ROOT, SCRATCH.replace("shared:2", "shared:77"))
    ]
    node.file("/proc/self/mountinfo", "\n".join(swapped) + "\n")
    assert mounts() == first


def test_mounts_of_containers_jobs_and_logins_are_left_out(node: Node) -> None:
    mounted(
        node,
        *(
            f"3{at} 21 0:4{at} / {place} rw - tmpfs tmpfs rw"
            for at, place in enumerate(
                (
                    "/run/user/1000",
                    "/run/credentials/systemd-journald.service",
                    "/var/lib/docker/overlay2/0123/merged",
                    "/var/lib/containers/storage/overlay/0123/merged",
                    "/var/lib/kubelet/pods/1/volumes",
                    "/run/netns",
                    "/var/spool/slurmd/job_7",
                    "/var/lib/docker",
                )
            )
        ),
    )
    assert set(mounts()) == {"/", "/var/lib/docker"}


def test_what_is_mounted_on_demand_is_left_out(node: Node) -> None:
    mounted(
        node,
        "30 21 0:40 / /home rw - autofs /etc/auto.home rw,fd=6,pgrp=77,timeout=300",
        "31 30 0:41 / /home/ada rw - nfs4 filer:/ada rw,addr=10.0.0.1",
    )
    seen = mounts()
    assert set(seen) == {"/", "/home"}
    assert seen["/home"]["super_options"] == ""


def test_a_place_with_two_mounts_has_two_objects(node: Node) -> None:
    mounted(node, SCRATCH, "23 22 0:50 / /scratch rw - tmpfs tmpfs rw,size=65536k")
    assert mounts()["/scratch #2"]["super_options"] == "size=65536k"


@pytest.mark.parametrize(
    ("option", "kind", "shown"),
    [
        ("size=4936820k", "tmpfs", "size=20% of memory"),
        ("size=4936828k", "tmpfs", "size=20% of memory"),
        ("size=4194304k", "tmpfs", "size=4194304k"),
        ("size=12300000k", "devtmpfs", "size=50% of memory"),
        ("nr_inodes=3085000", "devtmpfs", "nr_inodes=half of the pages"),
        ("mode=755", "tmpfs", "mode=755"),
    ],
)
def test_sizes_in_percent(option: str, kind: str, shown: str) -> None:
    assert sized(option, kind, 24684124) == shown


def test_swap_areas(node: Node) -> None:
    node.file(
        "/proc/swaps",
        "Filename Type Size Used Priority\n/dev/nvme1n1p3 partition 8388604 5 -2\n"
        "/swapfile file 1024 0 5\n",
    )
    mounted(node)
    seen = {entry.name: entry.fields for entry in read_swaps({}, Commands())}
    assert seen == {
        "partition 3 of the disk of role root": {
            "type": "partition",
            "size_kb": "8388604",
            "priority": "set by the kernel",
        },
        "/swapfile": {"type": "file", "size_kb": "1024", "priority": "5"},
    }
    assert running()["swap /swapfile"]["configured"] == "absent"


def test_what_fstab_says_and_nobody_did(node: Node) -> None:
    node.file(
        "/etc/fstab",
        "/dev/nvme1n1p2 / ext4 errors=remount-ro 0 1\n# a comment /x y\n"
        "/dev/nvme0n1 /scratch xfs noatime,nofail,x-systemd.device-timeout=5 0 0\n"
        "filer:/home /home nfs4 noauto 0 0\nfiler:/data /data nfs4 _netdev 0 0\n"
        "/swapfile none swap sw 0 0\n",
    )
    mounted(node, SCRATCH)
    assert running() == {
        "mount /data": {
            "running": "not mounted",
            "configured": "mounted",
            "file": "/etc/fstab",
        },
        "swap /swapfile": {"running": "off", "configured": "on", "file": "/etc/fstab"},
    }


@pytest.mark.parametrize(
    ("line", "running_is", "configured"),
    [
        (SCRATCH.replace("noatime", "relatime"), "relatime", "noatime"),
        (SCRATCH.replace("rw,noatime", "ro,noatime"), "ro", "rw"),
        (SCRATCH.replace("rw,noatime", "rw,noatime,nosuid"), "", ""),
        (SCRATCH.replace("xfs", "ext4"), "type ext4", "type xfs"),
        (SCRATCH.replace("nvme0n1", "sdb"), "source disk of role /scratch", "source /dev/nvme0n1"),
        (SCRATCH.replace("noquota", "logbsize=32k"), "logbsize=32k", "logbsize=256k"),
        (SCRATCH.replace("noquota", "logbsize=262144"), "", ""),
        (SCRATCH.replace("/dev/nvme0n1", "/dev/root"), "", ""),
    ],
)
def test_a_mount_that_is_not_as_in_fstab(
    node: Node, line: str, running_is: str, configured: str
) -> None:
    node.file("/etc/fstab", "/dev/nvme0n1 /scratch xfs defaults,noatime,logbsize=256k 0 0\n")
    mounted(node, line)
    seen = running().get("mount /scratch", {})
    assert (seen.get("running", ""), seen.get("configured", "")) == (running_is, configured)


def test_a_mount_unit(node: Node) -> None:
    mounted(node)
    unit = "[Mount]\nWhat=tmpfs\nWhere=/fast\nType=tmpfs\nOptions=size=50%%,nosuid\n"
    node.file("/etc/systemd/system/fast.mount", unit)
    assert running() == {}  # nobody enabled it
    node.file("/etc/systemd/system/multi-user.target.wants/fast.mount", unit)
    assert running()["mount /fast"]["running"] == "not mounted"
    mounted(node, "40 21 0:60 / /fast rw - tmpfs tmpfs rw,size=77k")
    assert running()["mount /fast"] == {
        "running": "suid",
        "configured": "nosuid",
        "file": "/etc/systemd/system/fast.mount",
    }


def linked(node: Node, kind: str, links: dict[str, str]) -> None:
    folder = node.root / f"dev/disk/by-{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, device in links.items():
        (folder / name).symlink_to(f"../../{device}")


def test_the_identifiers_of_disks_are_identities(node: Node) -> None:
    """The links are those of 60-persistent-storage.rules, of mdadm and of LVM."""
    mounted(node, SCRATCH, "23 21 253:0 / /var rw - ext4 /dev/mapper/vg0-var rw")
    node.file("/sys/block/dm-0/dm/name", "vg0-var\n")
    node.file("/sys/block/dm-0/slaves/md127", "")
    for disk in ("sda", "sdb"):
        node.file(f"/sys/block/md127/slaves/{disk}2", "")
    node.file("/sys/block/nvme7n1/device/model", "KIOXIA KCD8\n")
    linked(
        node,
        "id",
        {
            "nvme-KIOXIA_KCD8_Y3S0A001TNK8": "nvme0n1",
            "nvme-KIOXIA_KCD8_Y3S0A001TNK8_1": "nvme0n1",
            "nvme-KIOXIA_KCD8_Y3S0A007TNK8": "nvme7n1",
            "wwn-0x5000c500a1b2c3d4-part2": "sda2",
            "wwn-0x5000c500a1b2c3d5": "sdb",
            "md-name-n1:0": "md127",
            "md-uuid-11111111:22222222:33333333:44444444": "md127",
            "lvm-pv-uuid-abcdef-abcd-abcd-abcd-abcd-abcd-abcdef": "md127",
            "ata-QEMU_HARDDISK": "sda",
            "dm-name-vg0-var": "dm-0",
            "dm-uuid-LVM-x": "dm-0",
        },
    )
    assert Disks().identities() == {
        "identifier of disk of role /scratch": [
            "nvme-KIOXIA_KCD8_Y3S0A001TNK8", "Y3S0A001TNK8",
            "nvme-KIOXIA_KCD8_Y3S0A001TNK8_1", "Y3S0A001TNK8",
        ],
        "identifier of a disk of model KIOXIA KCD8": [
            "nvme-KIOXIA_KCD8_Y3S0A007TNK8", "Y3S0A007TNK8"],
        "identifier of partition 2 of a disk below /var": ["wwn-0x5000c500a1b2c3d4-part2"],
        "identifier of a disk below /var": [
            "ata-QEMU_HARDDISK",
            "lvm-pv-uuid-abcdef-abcd-abcd-abcd-abcd-abcd-abcdef",
            "abcdef-abcd-abcd-abcd-abcd-abcd-abcdef",
            "md-uuid-11111111:22222222:33333333:44444444",
            "11111111:22222222:33333333:44444444",
            "wwn-0x5000c500a1b2c3d5", "5000c500a1b2c3d5",
        ],
        "identifier of a mapped device below /var": ["dm-uuid-LVM-x"],
    }  # fmt: skip


def test_identities_in_names_of_units_are_escaped() -> None:
    assert escaped({"UUID of x": ["ab-cd", "1:2-3", "plain"]}) == {
        "UUID of x": ["ab-cd", "1:2-3", "plain", r"ab\x2dcd", r"1\x3a2\x2d3"]
    }


def test_the_uuids_of_disks_are_identities(node: Node) -> None:
    mounted(node)
    (node.root / "dev/disk/by-uuid").mkdir(parents=True)
    (node.root / "dev/nvme1n1p2").touch()
    (node.root / "dev/disk/by-uuid/4c-77").symlink_to("../../nvme1n1p2")
    assert Disks().identities() == {"UUID of partition 2 of the disk of role root": ["4c-77"]}
    # The source of a mount may be given by it.
    node.file("/etc/fstab", "UUID=4c-77 / ext4 defaults 0 1\n")
    assert running() == {}


def test_arrays_and_mapped_devices(node: Node) -> None:
    mounted(node, SCRATCH.replace("nvme0n1", "md127"))
    assert mounts()["/scratch"]["source"] == "disk of role /scratch"
    node.file("/sys/block/dm-1/dm/name", "vg-swap\n")
    node.file("/proc/swaps", "Filename Type Size Used Priority\n/dev/dm-1 partition 1 0 -2\n")
    assert [entry.name for entry in read_swaps({}, Commands())] == ["/dev/mapper/vg-swap"]


@pytest.mark.parametrize(
    ("line", "options", "healthy"),
    [
        ("nfs4 filer:/data rw,vers=4.2,rsize=524288", "vers=4,rsize=1048576,hard", True),
        ("nfs4 filer:/data/ rw,timeo=600", "timeo=600", True),
        ("nfs4 other:/data rw", "defaults", False),
        ("nfs4 filer:/data rw,timeo=600", "timeo=900", False),
    ],
)
def test_a_mount_of_a_file_server(node: Node, line: str, options: str, healthy: bool) -> None:
    node.file("/etc/fstab", f"filer:/data /data nfs4 {options} 0 0\n")
    mounted(node, f"30 21 0:40 / /data rw,relatime - {line}")
    assert ("mount /data" not in running()) == healthy


def test_options_that_mean_others_and_unknown_labels(node: Node) -> None:
    mounted(
        node,
        "30 21 0:40 / /stick rw,nosuid,nodev,noexec - vfat /dev/sdb1 rw",
        "31 21 0:41 / /images ro - squashfs /images.sq ro",
    )
    node.file(
        "/etc/fstab",
        "LABEL=unknown /stick vfat user,gid=disk 0 0\n/images.sq /images auto loop 0 0\n"
        "LABEL=root / ext4 defaults 0 1\n",
    )
    assert running() == {}


def test_a_drop_in_of_a_mount_unit(node: Node) -> None:
    unit = "[Mount]\nWhat=tmpfs\nWhere=/tmp\nType=tmpfs\nOptions=nosuid,size=50%%\n"
    node.file("/usr/lib/systemd/system/tmp.mount", unit)
    mounted(node, "40 21 0:60 / /tmp rw,noexec - tmpfs tmpfs rw")
    assert running()["mount /tmp"]["configured"] == "nosuid"
    node.file("/etc/systemd/system/tmp.mount.d/x.conf", "[Mount]\nOptions=noexec\n")
    assert running() == {}
