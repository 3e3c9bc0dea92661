"""The probe on small trees of files: firmware, CPUs, memory, kernel, services, mounts."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from lockstep.node.readers import kernel
from tests.probe.test_collect import Node, node

__all__ = ["node"]

CPU = "/sys/devices/system/cpu"


def value(node: Node, name: str) -> Any:
    return node.read()[name]["value"]


def test_what_a_machine_does_not_have_is_a_value(node: Node) -> None:
    node.file("/proc/cpuinfo", "processor : 0\n")
    seen = node.read()
    assert seen["platform"]["value"]["bios_version"] == "absent"
    assert seen["platform.bmc_firmware"] == {"value": "absent"}
    assert set(seen["cpu.frequency"]["value"].values()) == {"absent"}
    for reading in ("memory.modules", "memory.corrected", "cpu.power_limits", "storage.nvme"):
        assert seen[reading] == {"value": {}}
    assert seen["cpu.smt"] == seen["cpu.microcode"] == {"value": "absent"}


def test_a_bmc_that_does_not_answer_hides_nothing_else(node: Node) -> None:
    node.file("/sys/devices/platform/ipmi_bmc.0/firmware_revision/x", "a folder cannot be read")
    seen = node.read()
    assert "unread" in seen["platform.bmc_firmware"]
    assert "value" in seen["platform"]


def test_the_firmware_of_a_bmc(node: Node) -> None:
    node.file("/sys/devices/platform/ipmi_bmc.0/firmware_revision", "1.74\n")
    assert value(node, "platform.bmc_firmware") == "1.74"


def test_the_clocks_of_many_cpus_are_one_text(node: Node) -> None:
    for number, (governor, most) in enumerate([("performance", 3800), ("powersave", 2000)]):
        top = f"{CPU}/cpufreq/policy{number}"
        node.file(f"{top}/scaling_governor", f"{governor}\n")
        node.file(f"{top}/scaling_driver", "intel_pstate\n")
        node.file(f"{top}/cpuinfo_max_freq", "3800\n")
        node.file(f"{top}/scaling_max_freq", f"{most}\n")
    node.file(f"{CPU}/intel_pstate/no_turbo", "1\n")
    assert value(node, "cpu.frequency") == {
        "driver": "intel_pstate",
        "governor": "performance x1, powersave x1",
        "energy_preference": "absent",
        "lowest": "absent",
        "highest": "2000 kHz x1, of the CPU x1",
        "no_turbo": "1",
        "boost": "absent",
    }


def test_idle_states_are_told_by_name(node: Node) -> None:
    for cpu, flag in ((0, "0"), (1, "1")):
        node.file(f"{CPU}/cpu{cpu}/cpuidle/state0/name", "POLL\n")
        node.file(f"{CPU}/cpu{cpu}/cpuidle/state0/disable", "0\n")
        node.file(f"{CPU}/cpu{cpu}/cpuidle/state1/name", "C6\n")
        node.file(f"{CPU}/cpu{cpu}/cpuidle/state1/disable", f"{flag}\n")
    assert value(node, "cpu.idle_states") == {"POLL": "enabled", "C6": "disabled x1, enabled x1"}


def test_power_limits_are_told_by_package_and_kind(node: Node) -> None:
    top = "/sys/class/powercap/intel-rapl:0"
    node.file(f"{top}/name", "package-0\n")
    node.file(f"{top}/constraint_0_name", "long_term\n")
    node.file(f"{top}/constraint_0_power_limit_uw", "350000000\n")
    assert value(node, "cpu.power_limits") == {"package-0 long_term": 350.0}


def smbios(size: int, slot: str, speed: int, set_to: int, extended: int = 0) -> bytes:
    """Return a memory device as SMBIOS 7.18 lays it out."""
    body = struct.pack(
        "<BBH8xHBBBBBHH4BBIH",
        17,
        0x22,
        1,
        size,
        9,
        0,
        1,
        2,
        34,
        0,
        speed,
        0,
        0,
        0,
        0,
        0,
        extended,
        set_to,
    )
    assert len(body) == 0x22
    return body + f"{slot}\0BANK 0\0\0".encode()


def test_memory_modules_are_read_from_the_firmwares_table(node: Node) -> None:
    other = struct.pack("<BBH", 127, 4, 9) + b"\0\0"
    table = (
        smbios(0x7FFF, "A1", 5600, 4800, 65536)
        + smbios(16384, "B1", 3200, 0)
        + smbios(0, "C1", 0, 0)
        + other
    )
    node.file("/sys/firmware/dmi/tables/DMI", "")
    (node.root / "sys/firmware/dmi/tables/DMI").write_bytes(table)
    assert value(node, "memory.modules") == {
        "BANK 0 A1": "65536 MiB, 4800 MT/s",
        "BANK 0 B1": "16384 MiB, 3200 MT/s",
        "BANK 0 C1": "empty",
    }


def test_a_table_that_is_cut_off_gives_what_is_whole(node: Node) -> None:
    node.file("/sys/firmware/dmi/tables/DMI", "")
    cut = smbios(16384, "A1", 3200, 0) + smbios(16384, "B1", 3200, 0)[:20]
    (node.root / "sys/firmware/dmi/tables/DMI").write_bytes(cut)
    assert list(value(node, "memory.modules")) == ["BANK 0 A1"]


def test_errors_of_the_memory_are_counted_by_controller(node: Node) -> None:
    node.file("/sys/devices/system/edac/mc/mc0/ue_count", "0\n")
    node.file("/sys/devices/system/edac/mc/mc0/ce_count", "7\n")
    seen = node.read()
    assert seen["memory.uncorrected"] == {"value": {"mc0": 0}}
    assert seen["memory.corrected"] == {"value": {"mc0": 7}}


def test_the_newest_kernel_is_of_the_same_flavour(node: Node) -> None:
    for name in ("6.12.9+deb13-amd64", "6.12.48+deb13-amd64", "6.12.99+deb13-cloud-amd64"):
        node.file(f"/boot/vmlinuz-{name}", "")
    assert kernel.newest_kernel("6.12.9+deb13-amd64") == "6.12.48+deb13-amd64"
    assert kernel.newest_kernel("6.12.50+deb13-amd64") == "6.12.50+deb13-amd64"
    assert kernel.newest_kernel("5.14.0-503.el9.x86_64") == "5.14.0-503.el9.x86_64"


@pytest.mark.parametrize(("size", "shown"), [(4096, "4k"), (65536, "64k")])
def test_the_page_size_is_that_of_the_running_kernel(
    node: Node, monkeypatch: pytest.MonkeyPatch, size: int, shown: str
) -> None:
    node.file("/proc/cmdline", "ro quiet\n")
    node.file("/proc/sys/kernel/random/boot_id", "0\n")
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": size}[name])
    assert value(node, "kernel.page_size") == shown


def test_modules_are_told_by_their_version_and_absent_ones_too(node: Node) -> None:
    node.file("/proc/sys/kernel/tainted", "0\n")
    node.file("/sys/module/mlx5_core/version", "23.10-1.1.9\n")
    node.file("/sys/module/ib_core/refcnt", "1\n")
    node.file("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    seen = node.read()
    assert seen["kernel.modules"]["value"]["mlx5_core"] == "23.10-1.1.9"
    assert seen["kernel.modules"]["value"]["ib_core"] == "loaded"
    assert seen["kernel.modules"]["value"]["nouveau"] == "absent"
    assert seen["sysctl.common"]["value"]["net.ipv4.tcp_rmem"] == "4096 131072 6291456"
    assert seen["sysctl.common"]["value"]["vm.swappiness"] == "absent"


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("INFO: task python:17 blocked for more than 122 seconds.", "task hung"),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s!", "CPU locked up"),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "RCU stall"),
        ("EXT4-fs error (device sda1): ext4_find_entry:1455", "file system error"),
        ("I/O error, dev nvme0n1, sector 5 op 0x0:(READ)", "disk error"),
        ("NETDEV WATCHDOG: fabric0 (mlx5_core): transmit queue 3 timed out", "network queue hung"),
        ("I/O error, dev sr0, sector 0", None),
        ("EXT4-fs (sda1): mounted filesystem", None),
        ("mce: [Hardware Error]: Machine check events logged", None),
        ("AER: Corrected error received: 0000:3b:00.0", None),
        ("pcieport: AER: Uncorrectable (Non-Fatal) error", "PCIe error"),
    ],
)
def test_faults_in_the_kernels_buffer_are_told_from_its_other_words(
    node: Node, message: str, fault: str | None
) -> None:
    node.file("/dev/kmsg", f"4,1,2,-;{message}\n")
    assert value(node, "kernel.log") == ({fault: 1} if fault else {})
    node.file("/dev/kmsg", f"6,1,2,-;{message}\n")
    assert value(node, "kernel.log") == {}


def test_a_buffer_that_cannot_be_read_is_unread(node: Node) -> None:
    assert node.read()["kernel.log"]["unread"].startswith(f"{node.root}/dev/kmsg: ")


def test_identity_is_read_as_hashes(node: Node) -> None:
    node.file("/etc/machine-id", "5d96d36f44e341208fbab41457d02331\n")
    node.file("/etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAAC3Nza root@a\n")
    seen = node.read()
    assert seen["os.machine_id"] == {"value": "5d96d36f44e341208fbab41457d02331"}
    (kind, digest) = next(iter(seen["os.host_keys"]["value"].items()))
    assert (kind, len(digest)) == ("ed25519", 64)
    assert "AAAAC3Nza" not in str(seen)


def test_the_servers_behind_the_local_resolver_are_read(node: Node) -> None:
    node.file("/etc/resolv.conf", "# x\nnameserver 127.0.0.53\n")
    node.file("/run/systemd/resolve/resolv.conf", "nameserver fd00::1\nnameserver fd00::2\n")
    node.file("/etc/nsswitch.conf", "passwd: files\nhosts:   files  dns\n")
    assert value(node, "os.resolver") == {
        "nameserver": "fd00::1 fd00::2",
        "search": "",
        "options": "",
        "hosts": "files dns",
    }


def test_failed_units_and_those_that_somebody_enabled(node: Node) -> None:
    node.tool("systemctl", "echo 'backup.service loaded failed failed Backup'")
    node.file("/etc/systemd/system/timers.target.wants/x.timer", "")
    node.file("/etc/systemd/system/multi-user.target.wants/y.service", "")
    node.file("/etc/systemd/system/y.service", "")
    node.file("/etc/cron.d/x", "* * * * * root x\n")
    seen = node.read()
    assert seen["units.failed"] == {"value": ["backup.service"]}
    assert seen["units.enabled"] == {"value": ["x.timer", "y.service"]}
    assert list(seen["cron.jobs"]["value"]) == ["/etc/cron.d/x"]


def test_jobs_of_cron_are_alike_whenever_they_run(node: Node) -> None:
    node.file("/etc/cron.d/a", "7 3 * * * root x\n")
    node.file("/etc/cron.d/b", "41 5 * * * root x\n")
    node.file("/etc/cron.d/c", "* * * * * root x\n")
    seen = value(node, "cron.jobs")
    assert seen["/etc/cron.d/a"] == seen["/etc/cron.d/b"] != seen["/etc/cron.d/c"]


def test_collectors_are_told_with_their_options_and_variables(node: Node) -> None:
    node.file("/proc/7/cmdline", "/usr/bin/dcgm-exporter\0-c\0" + "1000\0")
    node.file("/proc/7/environ", "HOME=/\0DCGM_EXPORTER_INTERVAL=1000\0SECRET=x\0")
    node.file("/proc/8/cmdline", "nvidia-smi\0dmon\0")
    node.file("/proc/11/cmdline", "/usr/bin/python3\0-I\0/opt/telegraf\0--config\0a\0")
    node.file("/proc/12/cmdline", "nvidia-smi\0-lgc\0001500,1500\0")
    node.file("/proc/13/cmdline", "nvidia-smi\0-lms\000500\0")
    node.file("/proc/9/cmdline", "nvidia-smi\0--query-gpu=index\0")
    node.file("/proc/10/cmdline", "python3\0train.py\0")
    seen = value(node, "collectors")
    assert seen["dcgm-exporter"] == ["DCGM_EXPORTER_INTERVAL=1000 /usr/bin/dcgm-exporter -c 1000"]
    assert seen["nvidia-smi"] == ["nvidia-smi -lms 500", "nvidia-smi dmon"]
    assert seen["telegraf"] == ["/opt/telegraf --config a"]
    assert seen["nv-hostengine"] == []
    assert "train.py" not in str(seen)


def test_what_services_take_is_a_share_of_their_age(node: Node) -> None:
    node.file("/proc/uptime", "2000.00 100.00\n")
    ticks = os.sysconf("SC_CLK_TCK")
    for name, pid, begun in (("old", 7, 1000), ("young", 8, 1900)):
        top = f"/sys/fs/cgroup/system.slice/{name}.service"
        node.file(f"{top}/cpu.stat", "usage_usec 250000000\nuser_usec 1\n")
        node.file(f"{top}/cgroup.procs", f"{pid}\n")
        node.file(f"/proc/{pid}/stat", f"{pid} (a) b) S{' 0' * 18} {begun * ticks} 0\n")
    assert value(node, "services.cpu_share") == {"old.service": 25.0}


def test_mounts_are_told_without_what_the_kernel_fills_in(node: Node) -> None:
    node.file(
        "/proc/self/mounts",
        "/dev/sda1 / ext4 rw,relatime 0 0\n"
        "/dev/sda2 /boot ext4 ro,relatime 0 0\n"
        "s:/home /home nfs4 rw,hard,clientaddr=fd00::7,addr=fd00::5 0 0\n"
        "/dev/sda1 /var/lib/kubelet/x ext4 rw 0 0\n"
        "tmpfs /run tmpfs rw 0 0\n",
    )
    node.file(
        "/etc/fstab",
        "# x\n/dev/sda1 / ext4 defaults 0 1\ns:/data /data nfs4 hard 0 0\n"
        "s:/x /x nfs4 noauto 0 0\n/dev/sda3 none swap sw 0 0\n",
    )
    (node.root / "boot").mkdir()
    seen = node.read()
    assert seen["mounts.shared"] == {"value": {"/home": "nfs4 s:/home hard,rw"}}
    assert seen["mounts.local"] == {"value": {"/": "rw", "/boot": "ro"}}
    assert seen["mounts.fstab"] == {"value": {"/": "mounted", "/data": "absent"}}
    about = os.statvfs(node.root)
    assert seen["storage.space"]["value"]["/"] == round(
        100 - 100 * about.f_bavail / about.f_blocks, 1
    )


def test_a_shared_file_system_is_never_asked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer would hold the probe."""
    node.file("/proc/self/mounts", "s:/home /home nfs4 rw 0 0\n/dev/sda1 / ext4 rw 0 0\n")
    asked: list[str] = []
    real = os.statvfs

    def statvfs(path: str) -> os.statvfs_result:
        asked.append(path)
        return real(path)

    monkeypatch.setattr(os, "statvfs", statvfs)
    node.read()
    assert {Path(path) for path in asked} == {node.root}
