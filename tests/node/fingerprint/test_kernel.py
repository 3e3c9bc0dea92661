"""Kernel settings, modules and hardware on a small tree of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockstep.node.fingerprint.entry import Entry, Fields
from lockstep.node.fingerprint.exempt import by_domain, without_exceptions
from lockstep.node.fingerprint.hardware import read_hardware
from lockstep.node.fingerprint.kernel import PLAIN, read_kernel
from lockstep.node.fingerprint.modules import EXCEPTIONS_OF_MODULE, read_modules
from lockstep.node.readers.commands import Commands
from tests.probe.test_collect import Node, node

__all__ = ["node"]

Reader = Callable[[dict[str, Any], Commands], Iterator[Entry]]
CPU = "/sys/devices/system/cpu"


@pytest.fixture(autouse=True)
def minimal(node: Node) -> None:
    node.file("/proc/self/mountinfo", "21 1 259:2 / / rw - ext4 /dev/nvme1n1p2 rw\n")
    node.file("/proc/swaps", "Filename Type Size Used Priority\n")
    node.file("/proc/cmdline", "root=UUID=4c-77 quiet\n")
    node.file("/proc/cpuinfo", "model name : A\nflags : b a\ncpu MHz : 7\n\nmodel name : A\n")


def found(read: Reader) -> dict[str, Fields]:
    entries = list(read({}, Commands()))
    assert len({entry.name for entry in entries}) == len(entries)
    return {entry.name: entry.fields for entry in entries}


@pytest.mark.parametrize("path", PLAIN)
def test_a_value_is_an_object(node: Node, path: str) -> None:
    assert path not in found(read_kernel)
    node.file(path, "first second\n")
    assert found(read_kernel)[path] == {"value": "first second"}


def test_the_command_line(node: Node) -> None:
    assert found(read_kernel)["command line"] == {"arguments": "root=UUID=4c-77 quiet"}


def test_settings_of_alike_cpus_are_one_object(node: Node) -> None:
    for number in range(3):
        folder = f"{CPU}/cpufreq/policy{number}"
        node.file(f"{folder}/scaling_governor", "performance\n")
        node.file(f"{CPU}/cpu{number}/cpuidle/state1/name", "C6\n")
        node.file(f"{CPU}/cpu{number}/cpuidle/state1/disable", f"{int(number == 1)}\n")
    seen = found(read_kernel)
    assert seen[f"{CPU}/cpufreq/*/scaling_governor"] == {"value": "performance"}
    assert seen["idle state C6"] == {"disabled": "0 x2, 1 x1"}
    node.file(f"{CPU}/cpufreq/policy1/scaling_governor", "powersave\n")
    seen = found(read_kernel)
    assert seen[f"{CPU}/cpufreq/*/scaling_governor"] == {"value": "performance x2, powersave x1"}


def test_disks_are_told_by_role_or_counted(node: Node) -> None:
    for name in ("nvme0n1", "nvme1n1", "nvme2n1", "loop0"):
        node.file(f"/sys/block/{name}/queue/scheduler", "[none] mq-deadline\n")
        node.file(f"/sys/block/{name}/device/model", "Fast 3T\n")
    seen = found(read_kernel)
    assert seen["disk of role root"] == {"scheduler": "[none] mq-deadline"}
    assert seen["disks without mount, Fast 3T"]["number"] == "2"
    node.file("/sys/block/nvme2n1/queue/scheduler", "none [mq-deadline]\n")
    spare = found(read_kernel)["disks without mount, Fast 3T"]
    assert spare["scheduler"] == "[none] mq-deadline x1, none [mq-deadline] x1"


def test_power_limits_switches_and_profiles(node: Node) -> None:
    rapl = "/sys/class/powercap/intel-rapl:0"
    node.file(f"{rapl}/name", "package-0\n")
    node.file(f"{rapl}/constraint_0_name", "long_term\n")
    node.file(f"{rapl}/constraint_0_power_limit_uw", "350000000\n")
    usb = "/sys/bus/usb/devices/1-1"
    for file, value in (("authorized", "0"), ("idVendor", "046b"), ("idProduct", "ff10")):
        node.file(f"{usb}/{file}", f"{value}\n")
    node.file("/sys/class/rfkill/rfkill0/name", "wifi\n")
    node.file("/sys/class/rfkill/rfkill0/soft", "1\n")
    node.file("/sys/kernel/security/apparmor/profiles", "/usr/sbin/x (y) (enforce)\n")
    seen = found(read_kernel)
    assert seen["power limit intel-rapl:0 package-0"] == {"long_term": "350000000 uW"}
    assert seen["USB 046b:ff10"] == {"authorized": "0"}
    assert seen["radio switch wifi"] == {"soft": "1"}
    assert seen["AppArmor profile /usr/sbin/x (y)"] == {"mode": "enforce"}


def test_looking_for_binary_formats_does_not_mount_them(node: Node) -> None:
    folder = "/proc/sys/fs/binfmt_misc"
    node.file(f"{folder}/qemu", "enabled\n")
    line = f"30 21 0:40 / {folder} rw - %s systemd-1 rw\n"
    node.file("/proc/self/mountinfo", line % "autofs")
    assert "binary format qemu" not in found(read_kernel)
    node.file("/proc/self/mountinfo", line % "autofs" + line % "binfmt_misc")
    assert found(read_kernel)["binary format qemu"] == {"value": "enabled"}


def test_what_is_attached(node: Node) -> None:
    for number, file in enumerate(("/var/lib/snapd/x.snap", "/root/disk.img")):
        node.file(f"/sys/block/loop{number}/loop/backing_file", f"{file}\n")
        node.file(f"/sys/block/loop{number}/ro", "1\n")
    for number, size in enumerate(("0", "1048576")):
        node.file(f"/sys/block/zram{number}/disksize", f"{size}\n")
    for name in ("maps.debug", "limiter"):
        node.file(f"/sys/fs/bpf/{name}", "")
    seen = found(read_kernel)
    assert seen["loop device of /root/disk.img"] == {"read_only": "1"}
    assert seen["zram1"]["size"] == "1048576"
    assert seen["BPF object limiter"] == {"state": "pinned"}
    assert not [name for name in seen if "snap" in name or "zram0" in name or "debug" in name]


def test_modules_with_their_parameters(node: Node) -> None:
    node.file("/sys/module/nvme_core/initstate", "live\n")
    node.file("/sys/module/nvme_core/version", "1.0\n")
    node.file("/sys/module/nvme_core/refcnt", "7\n")
    node.file("/sys/module/nvme_core/parameters/io_timeout", "30\n")
    node.file("/sys/module/dm_bufio/parameters/peak_allocated_bytes", "77\n")
    node.file("/sys/module/dm_bufio/parameters/max_age_seconds", "300\n")
    table = by_domain(EXCEPTIONS_OF_MODULE)
    seen = {
        entry.name: without_exceptions("module", entry, table)
        for entry in read_modules({}, Commands())
    }
    assert seen == {
        "nvme_core": {"kind": "loaded", "version": "1.0", "parameter io_timeout": "30"},
        "dm_bufio": {"kind": "built in", "parameter max_age_seconds": "300"},
    }


def pci(
    node: Node, address: str, kind: str, number: str = "0x2330", driver: str = "nvidia"
) -> None:
    folder = f"/sys/bus/pci/devices/{address}"
    node.file(f"{folder}/class", f"{kind}\n")
    node.file(f"{folder}/vendor", "0x10de\n")
    node.file(f"{folder}/device", f"{number}\n")
    target = node.root / f"sys/bus/pci/drivers/{driver}"
    target.mkdir(parents=True, exist_ok=True)
    (node.root / folder.lstrip("/") / "driver").symlink_to(target)


def test_devices_are_told_by_kind_and_order(node: Node) -> None:
    pci(node, "0000:41:00.0", "0x030200")
    pci(node, "0000:81:00.0", "0x030200", driver="vfio-pci")
    pci(node, "0000:00:01.0", "0x060400", "0x1111", "pcieport")
    pci(node, "0000:00:02.0", "0x060400", "0x1111", "pcieport")
    seen = found(read_hardware)
    assert seen["PCI 10de:2330 #1"]["driver"] == "nvidia"
    assert seen["PCI 10de:2330 #2"]["driver"] == "vfio-pci"
    assert seen["PCI 10de:1111 class 0604"] == {"number": "2", "driver": "pcieport"}


def test_processors_and_memory(node: Node) -> None:
    memory = "/sys/devices/system/memory"
    node.file(f"{memory}/block_size_bytes", "40000000\n")
    for number in range(3):
        node.file(f"{memory}/memory{number}/state", "online\n")
        node.file(f"{CPU}/cpu{number}/microcode/version", "0x2b\n")
    seen = found(read_hardware)
    assert seen["memory"] == {"size": "3 GiB"}
    assert seen["processors"] == {
        "CPUs": "3", "model name": "A", "flags": "a b", "microcode": "0x2b"
    }  # fmt: skip
    node.file(f"{CPU}/cpu1/microcode/version", "0x2a\n")
    assert found(read_hardware)["processors"]["microcode"] == "0x2a x1, 0x2b x2"


def test_memory_without_blocks_is_rounded_up(node: Node) -> None:
    sizes = set()
    for total in (2113663992, 2113663000):
        node.file("/proc/meminfo", f"MemTotal: {total} kB\n")
        sizes.add(found(read_hardware)["memory"]["size"])
    assert sizes == {"2016 GiB"}


def test_the_board_without_serial_numbers(node: Node) -> None:
    for name, value in (("bios_version", "2.1"), ("board_serial", "S7"), ("product_uuid", "4c")):
        node.file(f"/sys/class/dmi/id/{name}", f"{value}\n")
    assert found(read_hardware)["board"] == {"bios_version": "2.1"}


def test_the_order_of_boot_entries_is_told_by_description(node: Node) -> None:
    name = "sys/firmware/efi/efivars/{}-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    folder = node.root / "sys/firmware/efi/efivars"
    folder.mkdir(parents=True)

    def variable(which: str, data: bytes) -> None:
        (node.root / name.format(which)).write_bytes(b"\7\0\0\0" + data)

    for number, text in ((3, "debian"), (9, "PXE 0A1B2C3D4E5F")):
        variable(f"Boot{number:04X}", bytes(6) + text.encode("utf-16-le") + b"\0\0\1\2")
    variable("BootOrder", b"\x09\0\x03\0")
    variable("SecureBoot", b"\1")
    assert found(read_hardware)["EFI"] == {
        "mode": "UEFI",
        "SecureBoot": "1",
        "boot order": "PXE <number>, debian",
    }


def test_disks_by_role_and_model(node: Node) -> None:
    for name in ("nvme1n1", "nvme2n1", "nvme3n1"):
        for file, value in (("model", "Fast 3T"), ("firmware_rev", "1.2")):
            node.file(f"/sys/block/{name}/device/{file}", f"{value}\n")
        node.file(f"/sys/block/{name}/size", "77\n")
    seen = found(read_hardware)
    about = {"model": "Fast 3T", "firmware": "1.2", "size": "77 sectors"}
    assert seen["disk of role root"] == about
    assert seen["disk without mount, Fast 3T, 1.2, 77 sectors"] == {"number": "2"}
