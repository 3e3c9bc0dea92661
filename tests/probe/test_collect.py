"""The probe on a small tree of files with simulated tools: readings, and readings that fail."""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import shlex
import shutil
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.node.readers import collect, commands, take, tree
from lockstep.probe.parse import parse
from lockstep.probe.ship import (
    LARGEST_COMMAND,
    PACKAGE,
    START,
    Request,
    command,
    in_pieces,
    sources,
    with_input,
)

GPU_ROW = (
    "{index}, NVIDIA H200, GPU-{index}, 00000000:83:00.0, 96.00.A5.00.03, 590.48.01, "
    "{enforced}, 700.00, Enabled, Disabled, Default, 16, 16, 1980, "
    "143771, 700.00, Disabled, 345, P0, 0, 0, None, 0, Completed, Success, "
    # What not every model has.
    "165{index}, Enabled, Enabled, No, No, 200.00, 700.00, 3201, 3201, G520.0280.02.02, 7.16, "
    "valid, Enabled, Enabled, None, Disabled, 1980, 3201, 1980, 3201, "
    "0, 0x0000000000000001, 0, 0, 0, 0, 59, 5, 5, 0, 0, No, 0, 0, "
    "00000000-0000-0000-0000-000000000000, 0, [N/A], [N/A], "
    # What shows that the GPU answers.
    "69.42, 27"
)


class Node:
    """A tree that stands for / and a folder that stands for PATH."""

    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.bin = base / "bin"
        self.root.mkdir()
        self.bin.mkdir()

    def file(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def tool(self, name: str, script: str) -> None:
        target = self.bin / name
        target.write_text(f"#!/bin/sh\n{script}\n")
        target.chmod(0o755)

    def read(self, **request: Any) -> dict[str, Any]:
        readings: dict[str, Any] = collect.collect(request)["readings"]
        return readings


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)
    monkeypatch.setattr(tree, "ROOT", str(made.root))
    monkeypatch.setattr(commands, "PATH", f"{made.bin}")
    return made


def shipped(*without: str) -> Iterator[ast.AST]:
    """All that a node runs, as Python 3.9 understands it."""
    texts = [text for name, text in sources().items() if name not in without]
    for text in (START.read_text(encoding="utf-8"), *texts):
        yield from ast.walk(ast.parse(text, feature_version=(3, 9)))


def test_each_module_travels_behind_those_that_it_imports() -> None:
    """As Python's parser understands them. What a function imports is there when it runs."""
    texts, before = sources(), set[str]()
    assert len(texts) > 20
    for name, text in texts.items():
        imported = {
            found
            for part in ast.parse(text).body
            if isinstance(part, ast.ImportFrom)
            for found in (str(part.module), *(f"{part.module}.{one.name}" for one in part.names))
        }
        assert imported & texts.keys() <= before, name
        before.add(name)


def gpus(node: Node, *enforced: str) -> None:
    rows = [GPU_ROW.format(index=i, enforced=watts) for i, watts in enumerate(enforced)]
    node.tool("nvidia-smi", "\n".join(f"echo '{row}'" for row in rows))


def test_every_gpu_is_read_from_one_query(node: Node) -> None:
    gpus(node, "700.00", "350.00")
    seen = node.read()
    assert seen["gpu.count"] == {"value": 2}
    assert seen["gpu.power.enforced_w"] == {"value": {"gpu0": 700.0, "gpu1": 350.0}}
    assert seen["gpu.pcie.width_max"] == {"value": {"gpu0": 16, "gpu1": 16}}


def test_what_the_driver_cannot_tell_is_unread_for_that_gpu(node: Node) -> None:
    gpus(node, "[Unknown Error]", "350.00")
    assert node.read()["gpu.power.enforced_w"]["value"] == {
        "gpu0": {"unread": "nvidia-smi: enforced.power.limit is [Unknown Error]"},
        "gpu1": 350.0,
    }


def test_a_hanging_tool_costs_its_time_out_and_its_own_readings(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "COMMAND_TIMEOUT_S", 0.5)
    node.tool("nvidia-smi", "/bin/sleep 60")
    node.tool("chronyc", "echo 7F7F0101,,10,1.0,0.0,0,0,0,0,0,0,0,0,Normal")
    begin = time.monotonic()
    record = collect.collect({})
    assert time.monotonic() - begin < 5
    assert record["readings"]["gpu.count"] == {"unread": "nvidia-smi: did not finish within 0.5 s"}
    assert record["readings"]["time.synchronised"] == {"value": True}
    hung = [ran for ran in record["commands"] if ran["timed_out"]]
    assert [ran["argv"][0] for ran in hung] == ["nvidia-smi"]
    assert all(0.4 < ran["duration_s"] < 3 for ran in hung)


@pytest.mark.parametrize(
    ("age_s", "interval_s", "reference", "leap", "synchronised"),
    [
        (600, 64.2, "FD000001", "Normal", True),
        (7100, 64.2, "FD000001", "Insert second", True),
        (7300, 64.2, "FD000001", "Normal", False),
        (7300, 1030.1, "FD000001", "Normal", True),
        (20000, 1030.1, "FD000001", "Normal", False),
        (10, 64.2, "FD000001", "Not synchronised", False),
        (10**9, 0.0, "7F7F0101", "Normal", True),
    ],
)
def test_a_clock_whose_servers_are_lost_is_not_synchronised(
    node: Node, age_s: int, interval_s: float, reference: str, leap: str, synchronised: bool
) -> None:
    first = f"{reference},head,11,{time.time() - age_s:.9f},0.000004770"
    node.tool("chronyc", f"echo '{first},0,0,0,0,0,0.01,0.001,{interval_s},{leap}'")
    seen = node.read()
    assert seen["time.synchronised"] == {"value": synchronised}
    assert seen["time.offset_s"] == {"value": 4.77e-06}


def test_a_hanging_tool_is_ended_with_its_children(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(commands, "COMMAND_TIMEOUT_S", 0.5)
    left = tmp_path / "left"
    node.tool("nvidia-smi", f"(/bin/sleep 2; /bin/touch {left}) & /bin/sleep 60")
    node.read()
    time.sleep(2.5)
    assert not left.exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 9", "nvidia-smi: exit 9: no message"),
        ("echo garbage", "nvidia-smi: not a row of values: garbage"),
        ("head -c 300 /dev/zero", "nvidia-smi: not a row of values: "),
    ],
)
def test_garbage_is_unread_with_its_reason(node: Node, script: str, reason: str) -> None:
    node.tool("head", 'exec /usr/bin/head "$@"')
    node.tool("nvidia-smi", script)
    seen = node.read()
    assert seen["gpu.count"]["unread"].startswith(reason)
    assert seen["gpu.name"] == seen["gpu.count"]


def test_missing_tools_are_named(node: Node) -> None:
    seen = node.read(units=["a.service"], credential="MUNGE:")
    for reading, tool in (
        ("gpu.count", "nvidia-smi"),
        ("time.offset_s", "chronyc"),
        ("packages", "dpkg-query"),
        ("driver.module_on_disk", "modinfo"),
        ("driver.xid", "journalctl"),
        ("units", "systemctl"),
        ("munge.decoded", "unmunge"),
        ("slurm.nodes", "slurmctld"),
    ):
        assert seen[reading] == {"unread": f"{tool}: not installed"}


def test_nothing_is_left_out(node: Node) -> None:
    expected = {name for _, names in collect.READERS for name in names}
    seen = node.read()
    assert set(seen) == expected
    for reading in seen.values():
        assert len(reading) == 1
        assert set(reading) <= {"value", "unread"}


def test_the_file_that_wins_is_named_for_each_sysctl(node: Node) -> None:
    node.file("/usr/lib/sysctl.d/50-default.conf", "vm.swappiness = 60\nkernel.x = 1\n")
    node.file("/etc/sysctl.d/99-a.conf", "# comment\n-vm/swappiness=1\n; other\n")
    node.file("/etc/sysctl.d/50-b.conf", "net.ipv4.conf.*.rp_filter = 2\nvm.swappiness=5\n")
    node.file("/run/sysctl.d/99-a.conf", "vm.swappiness=9\n")
    node.file("/etc/sysctl.d/50-default.conf", "")
    asked = ["vm.swappiness", "kernel.x", "net.ipv4.conf.eth0.rp_filter", "net.ipv4.conf.rp_filter"]
    assert node.read(sysctls=asked)["sysctl.persisted"]["value"] == {
        "vm.swappiness": {"value": "1", "file": "/etc/sysctl.d/99-a.conf"},
        "kernel.x": {"absent": True},
        "net.ipv4.conf.eth0.rp_filter": {"value": "2", "file": "/etc/sysctl.d/50-b.conf"},
        "net.ipv4.conf.rp_filter": {"absent": True},
    }


def test_running_sysctls_are_read_in_either_notation(node: Node) -> None:
    node.file("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    node.file("/proc/sys/net/ipv4/conf/eth0.1/rp_filter", "0\n")
    asked = ["net.ipv4.tcp_rmem", "net.ipv4.conf.eth0/1.rp_filter", "no.such"]
    assert node.read(sysctls=asked)["sysctl.running"]["value"] == {
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
        "net.ipv4.conf.eth0/1.rp_filter": "0",
        "no.such": {"unread": "/proc/sys/no/such: no such file"},
    }


def test_huge_pages_are_read_per_numa_node(node: Node) -> None:
    for numa, pages in ((0, 512), (1, 256)):
        for size in (2048, 1048576):
            path = f"/sys/devices/system/node/node{numa}/hugepages/hugepages-{size}kB/nr_hugepages"
            node.file(path, f"{pages if size == 2048 else 0}\n")
    assert node.read()["hugepages"] == {
        "value": {"2M": {"0": 512, "1": 256}, "1G": {"0": 0, "1": 0}}
    }


@pytest.mark.parametrize(
    ("folders", "sizes"),
    [
        # Kernels of arm64 with pages of 64 KiB, and of 4 KiB.
        ((2048, 524288, 16777216), {"2M", "512M", "16G"}),
        ((64, 2048, 32768, 1048576), {"64K", "2M", "32M", "1G"}),
    ],
)
def test_every_size_of_arm64_has_its_name(
    node: Node, folders: tuple[int, ...], sizes: set[str]
) -> None:
    for kib in folders:
        path = f"/sys/devices/system/node/node0/hugepages/hugepages-{kib}kB/nr_hugepages"
        node.file(path, "0\n")
    assert set(node.read()["hugepages"]["value"]) == sizes


def test_free_huge_pages_are_read_beside_all_of_them(node: Node) -> None:
    folder = "/sys/devices/system/node/node0/hugepages/hugepages-1048576kB"
    node.file(f"{folder}/nr_hugepages", "4\n")
    assert "unread" in node.read()["hugepages.free"]["value"]["1G"]["0"]
    node.file(f"{folder}/free_hugepages", "3\n")
    seen = node.read()
    assert seen["hugepages"] == {"value": {"1G": {"0": 4}}}
    assert seen["hugepages.free"] == {"value": {"1G": {"0": 3}}}


def test_huge_pages_are_mounted_with_a_size_and_rights(node: Node) -> None:
    node.file("/dev/hugepages1G/x", "")
    (node.root / "dev/hugepages1G").chmod(0o1777)
    node.file(
        "/proc/self/mounts",
        "proc /proc proc rw 0 0\n"
        "hugetlbfs /dev/hugepages1G hugetlbfs rw,nosuid,relatime,pagesize=1024M 0 0\n"
        "hugetlbfs /mnt/gone hugetlbfs rw,pagesize=2M 0 0\n",
    )
    group = (node.root / "dev/hugepages1G").stat().st_gid
    assert node.read()["hugepages.mounts"]["value"] == {
        "/dev/hugepages1G": {"pagesize": "1G", "mode": "1777", "gid": group},
        "/mnt/gone": {"unread": f"{node.root}/mnt/gone: No such file or directory"},
    }


def test_settings_are_read_from_every_file_of_a_pattern(node: Node) -> None:
    cpufreq = "/sys/devices/system/cpu/cpufreq"
    node.file(f"{cpufreq}/policy0/scaling_governor", "performance\n")
    node.file(f"{cpufreq}/policy10/scaling_governor", "powersave\n")
    thp = "/sys/kernel/mm/transparent_hugepage/enabled"
    node.file(thp, "always [madvise] never\nmore\n")
    governors = f"{cpufreq}/policy*/scaling_governor"
    asked = [governors, thp, "/proc/irq/default_smp_affinity"]
    assert node.read(kernel_files=asked)["kernel.files"]["value"] == {
        governors: {
            f"{cpufreq}/policy0/scaling_governor": "performance",
            f"{cpufreq}/policy10/scaling_governor": "powersave",
        },
        thp: {thp: "always [madvise] never"},
        "/proc/irq/default_smp_affinity": {},
    }


@pytest.mark.parametrize(
    ("shown", "means"), [("(null)\n", ""), ("\n", ""), ("1-7,9-15\n", "1-7,9-15"), (None, "")]
)
def test_cpus_without_a_tick_are_read_and_none_is_a_value(
    node: Node, shown: str | None, means: str
) -> None:
    assert "unread" in node.read()["cpu.nohz_full"]
    node.file("/sys/devices/system/cpu/isolated", "2-3\n")
    if shown is not None:
        node.file("/sys/devices/system/cpu/nohz_full", shown)
    seen = node.read()
    assert seen["cpu.nohz_full"] == {"value": means}
    assert seen["cpu.isolated"] == {"value": "2-3"}


def test_the_driver_of_idle_states_is_asked_for_its_limit(node: Node) -> None:
    assert "neither intel_idle nor processor" in node.read()["kernel.max_cstate"]["unread"]
    node.file("/sys/module/processor/parameters/max_cstate", "8\n")
    assert node.read()["kernel.max_cstate"] == {"value": 8}
    node.file("/sys/module/intel_idle/parameters/max_cstate", "1\n")
    assert node.read()["kernel.max_cstate"] == {"value": 1}


def test_interrupts_are_named_by_what_raises_them(node: Node) -> None:
    assert "unread" in node.read()["irq.affinity"]
    node.file("/proc/irq/default_smp_affinity", "ff\n")
    for number, actions, cpus in (
        (9, "acpi", "0-7"),
        (10, "", "0-7"),
        (24, "nvme0q1", "0"),
        (100, "eth0", "0,8"),
        (101, "eth0", "1"),
        (102, "eth0", None),
    ):
        node.file(f"/sys/kernel/irq/{number}/actions", f"{actions}\n")
        node.file(f"/proc/irq/{number}/spurious", "")
        if cpus is not None:
            node.file(f"/proc/irq/{number}/smp_affinity_list", f"{cpus}\n")
    node.file("/proc/irq/103/spurious", "")  # freed while it was read
    assert node.read()["irq.affinity"]["value"] == {
        "acpi": "0-7",
        "nvme0q1": "0",
        "eth0": "0,8",
        "eth0#2": "1",
        "eth0#3": {"unread": "/proc/irq/102/smp_affinity_list: no such file"},
    }


@pytest.mark.parametrize("top", ["", "/unified", "/systemd"])
def test_the_cpus_of_a_service_are_those_of_all_its_processes(node: Node, top: str) -> None:
    system = f"/sys/fs/cgroup{top}/system.slice"
    assert node.read()["cpuset.services"] == {
        "unread": "there is no system.slice below /sys/fs/cgroup"
    }
    node.file(f"{system}/dev-hugepages.mount/cgroup.procs", "")
    assert node.read()["cpuset.services"]["unread"].startswith("no service in ")
    node.file(f"{system}/slurmd.service/cgroup.procs", "10\n11\n99\n")
    node.file(f"{system}/slurmstepd.scope/job_1/cgroup.procs", "12\n")
    node.file(f"{system}/system-getty.slice/getty@tty1.service/cgroup.procs", "13\n")
    node.file(f"{system}/docker.service/payload/system.slice/x.service/cgroup.procs", "14\n")
    node.file(f"{system}/idle.service/cgroup.procs", "")
    for process, cpus in ((10, "0-3"), (11, "2-5,8"), (12, "1"), (13, "0,8"), (14, "7")):
        node.file(f"/proc/{process}/status", f"Name:\tx\nCpus_allowed_list:\t{cpus}\n")
    assert node.read()["cpuset.services"]["value"] == {
        "docker.service": "7",
        "getty@tty1.service": "0,8",
        "slurmd.service": "0-5,8",
    }


def words(address: str) -> str:
    """An address as /proc/net has it: 32-bit words in the CPU's own order."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    raw = socket.inet_pton(family, address)
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(raw) // 4}I", raw))


def test_listeners_are_read_in_both_families(node: Node) -> None:
    def table(name: str, *rows: tuple[str, int, str]) -> None:
        lines = [
            f"   {n}: {words(address)}:{port:04X} 00000000:0000 {state} 00000000:00000000"
            for n, (address, port, state) in enumerate(rows)
        ]
        node.file(f"/proc/net/{name}", "\n".join(["  sl  local_address ...", *lines]) + "\n")

    asked = ["tcp/22", "tcp/6818", "udp/123", "tcp/9100"]
    assert "unread" in node.read(listeners=asked)["listeners"]
    table("tcp", ("0.0.0.0", 22, "0A"), ("10.0.0.7", 6818, "01"))
    table("udp", ("0.0.0.0", 123, "07"), ("10.0.0.7", 123, "01"))
    assert node.read(listeners=asked)["listeners"]["value"]["tcp/22"] == ["0.0.0.0"]
    table("tcp6", ("::", 22, "0A"), ("fd12::1", 6818, "0A"), ("::1", 6818, "0A"))
    table("udp6", ("::", 123, "07"), ("::", 22, "07"))
    assert node.read(listeners=asked)["listeners"]["value"] == {
        "tcp/22": ["0.0.0.0", "::"],
        "tcp/6818": ["::1", "fd12::1"],
        "udp/123": ["0.0.0.0", "::"],
        "tcp/9100": [],
    }


RXE = {
    "node_guid": "5054:00ff:fe12:3456\n",
    "fw_ver": "\n",
    "ports/1/state": "4: ACTIVE\n",
    "ports/1/phys_state": "5: LinkUp\n",
    "ports/1/rate": "2.5 Gb/sec (1X SDR)\n",
    "ports/1/link_layer": "Ethernet\n",
    "ports/1/gid_attrs/ndevs/0": "fabric0\n",
}


def test_rdma_devices_are_read_with_their_ports(node: Node) -> None:
    assert node.read()["rdma.count"] == {"unread": "/sys/class: no such file"}
    node.file("/sys/class/net/lo/mtu", "65536\n")
    seen = node.read()
    assert seen["rdma.count"] == {"value": 0}
    assert seen["rdma.guid"] == seen["rdma.device_files"] == {"value": {}}
    for file, text in RXE.items():
        node.file(f"/sys/class/infiniband/rxe0/{file}", text)
    for file, text in {**RXE, "board_id": "MT_0000000838\n", "hca_type": "MT4129\n"}.items():
        if not file.endswith("ndevs/0"):
            node.file(f"/sys/class/infiniband/mlx5_0/{file}", text)
    node.file("/sys/class/infiniband/mlx5_0/device/net/ib0/mtu", "4092\n")
    node.file("/sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n")
    node.file("/dev/infiniband/uverbs0", "")
    (node.root / "dev/infiniband/uverbs0").chmod(0o666)
    seen = {name: reading.get("value") for name, reading in node.read().items()}
    assert (seen["rdma.count"], seen["rdma.names"]) == (2, ["mlx5_0", "rxe0"])
    assert seen["rdma.board"] == {"mlx5_0": "MT_0000000838", "rxe0": ""}
    assert seen["rdma.type"] == {"mlx5_0": "MT4129", "rxe0": ""}
    assert seen["rdma.firmware"]["rxe0"] == ""
    assert seen["rdma.guid"]["rxe0"] == "5054:00ff:fe12:3456"
    assert seen["rdma.state"] == {"mlx5_0": "ACTIVE", "mlx5_0/2": "DOWN", "rxe0": "ACTIVE"}
    assert seen["rdma.phys_state"]["rxe0"] == "LinkUp"
    assert seen["rdma.rate"]["rxe0"] == "2.5 Gb/sec (1X SDR)"
    assert "no such file" in seen["rdma.rate"]["mlx5_0/2"]["unread"]
    assert seen["rdma.link_layer"]["rxe0"] == "Ethernet"
    assert seen["rdma.netdev"] == {"mlx5_0": "ib0", "mlx5_0/2": "ib0", "rxe0": "fabric0"}
    assert seen["rdma.device_files"] == {"/dev/infiniband/uverbs0": "666"}


def test_the_limit_of_locked_memory_is_that_of_the_main_process(node: Node) -> None:
    block = "LoadState=loaded\\nActiveState=active\\nSubState=running\\nUnitFileState=enabled"
    node.tool("systemctl", f"printf '{block}\\nMainPID=42\\n\\n{block}\\nMainPID=0\\n'")
    node.file(
        "/proc/42/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         8388608              unlimited            bytes     \n",
    )
    asked = ["slurmd.service", "b.service"]
    assert node.read(units=asked)["limits.memlock"]["value"] == {
        "slurmd.service": {"soft": "8388608", "hard": "unlimited"},
        "b.service": {"unread": "b.service has no main process"},
    }
    (node.root / "proc/42/limits").unlink()
    assert node.read(units=asked)["limits.memlock"]["value"]["slurmd.service"] == {
        "unread": "/proc/42/limits: no such file"
    }


def test_a_slice_without_a_set_of_its_own_may_use_all_cpus(node: Node) -> None:
    node.file("/proc/1/status", "Name: systemd\nCpus_allowed_list:\t0,8\n")
    node.file("/sys/devices/system/cpu/online", "0-15\n")
    seen = node.read()
    assert seen["cpuset.manager"] == {"value": "0,8"}
    assert "no such file" in seen["cpuset.user_slice"]["unread"]
    node.file("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    assert node.read()["cpuset.user_slice"] == {
        "unread": "/sys/fs/cgroup/cgroup.controllers lists no cpuset controller"
    }
    node.file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
    assert node.read()["cpuset.user_slice"] == {"value": None}
    node.file("/sys/fs/cgroup/user.slice/cgroup.procs", "")
    assert node.read()["cpuset.user_slice"] == {"value": "0-15"}
    node.file("/sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0,8\n")
    seen = node.read()
    assert seen["cpuset.user_slice"] == seen["cpuset.manager"] == {"value": "0,8"}


def test_persisted_kernel_arguments_follow_the_shell(node: Node) -> None:
    node.file("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n')
    node.file("/etc/default/grub.d/1.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n')
    node.file("/etc/default/grub.d/2.cfg", 'GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX} nosmt"\n')
    node.file("/etc/default/grub.d/3.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=''\n")
    assert node.read()["kernel.cmdline_persisted"] == {"value": ["iommu=pt", "nosmt"]}


def test_the_menu_of_grub_is_asked_before_what_it_is_made_from(node: Node) -> None:
    node.file("/etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu=pt"\n')
    node.file("/boot/grub/grub.cfg", "menuentry x {\n\tlinux\t/boot/vmlinuz-6 root=UUID=1 ro\n}\n")
    assert node.read()["kernel.cmdline_persisted"] == {"value": ["root=UUID=1", "ro"]}


def test_a_lost_unit_is_a_state_and_a_short_answer_is_unread(node: Node) -> None:
    block = (
        "LoadState=not-found\\nActiveState=inactive\\nSubState=dead\\nUnitFileState="
        "\\nActiveEnterTimestampMonotonic=0"
    )
    node.tool("systemctl", f"printf '{block}\\n'")
    assert node.read(units=["a.service"])["units"]["value"]["a.service"] == {
        "active": "inactive",
        "sub": "dead",
        "load": "not-found",
        "enabled": "",
        "started_at": None,
    }
    assert node.read(units=["a.service", "b.service"])["units"] == {
        "unread": "systemctl show: expected 2 units, found 1"
    }


def test_half_installed_packages_are_told_from_held_ones(node: Node) -> None:
    node.tool(
        "dpkg-query",
        "printf 'bash amd64 5.2 ii \\nslurmd amd64 24.11 hi \\nchrony amd64 4.6 iF \\n"
        "gone amd64  un \\nold amd64 1 rc \\nlibc6 amd64 2.41 ii \\nlibc6 i386 2.41 ii \\n"
        "never amd64  hn \\n'",
    )
    seen = node.read()
    assert seen["packages"]["value"] == {
        "bash": "5.2",
        "slurmd": "24.11",
        "chrony": "4.6",
        "libc6": "2.41",
        "libc6:i386": "2.41",
    }
    assert seen["packages.broken"] == {"value": ["chrony"]}
    assert seen["packages.held"] == {"value": ["slurmd"]}


def test_slurms_view_is_read_with_its_reason(node: Node) -> None:
    node.tool("slurmctld", "")
    node.tool(
        "scontrol",
        "echo 'NodeName=w1 Arch=x86_64 CPUAlloc=0 CPUTot=8 Gres=gpu:h200:8(S:0-1) RealMemory=900 "
        "OS=Linux 6.1 #1 SMP State=IDLE+DRAIN* CPUSpecList=0,4 Version=24.11.5 "
        "Reason=lockstep: lost a board [root@2026-01-01T00:00:00] Comment=x'",
    )
    assert node.read()["slurm.nodes"]["value"]["w1"] == {
        "state": ["DRAIN", "IDLE", "NOT_RESPONDING"],
        "cpus": 8,
        "real_memory": 900,
        "gres": "gpu:h200:8",
        "cpu_spec_list": "0,4",
        "reason": "lockstep: lost a board",
        "version": "24.11.5",
        "was_busy": False,
    }


@pytest.mark.parametrize(
    ("time", "was_busy"), [("Unknown", False), ("None", False), ("2026-11-24T12:47:06", True)]
)
def test_a_node_that_has_never_registered_is_told_from_others(
    node: Node, time: str, was_busy: bool
) -> None:
    node.tool("slurmctld", "")
    node.tool(
        "scontrol",
        "echo 'NodeName=w1 CPUTot=8 RealMemory=900 State=UNKNOWN CPUSpecList=0,4 "
        f"LastBusyTime={time}'",
    )
    assert node.read()["slurm.nodes"]["value"]["w1"]["was_busy"] is was_busy


@pytest.mark.parametrize(
    "gres",
    [
        "gpu:nvidia_h200_2g.35gb:4(S:0,2),gpu:nvidia_h200_3g.71gb:8(S:0-1)",
        "gpu:nvidia_h200_3g.71gb:8(S:0-1),gpu:nvidia_h200_2g.35gb:4(S:0,2)",
    ],
)
def test_the_order_of_slurms_types_says_nothing(node: Node, gres: str) -> None:
    """slurmd lists the types of MIG devices in its own order, slurm.conf in another."""
    node.tool("slurmctld", "")
    node.tool("scontrol", f"echo 'NodeName=w1 CPUTot=8 Gres={gres} RealMemory=900 State=IDLE'")
    found = node.read()["slurm.nodes"]["value"]["w1"]["gres"]
    assert found == "gpu:nvidia_h200_2g.35gb:4,gpu:nvidia_h200_3g.71gb:8"


def test_a_mark_behind_a_state_is_not_dropped(node: Node) -> None:
    """``~`` is powered down, ``!`` about to be (sinfo(1)): such a node is not simply idle."""
    node.tool("slurmctld", "")
    node.tool("scontrol", "echo 'NodeName=w1 CPUTot=8 RealMemory=900 State=IDLE~'")
    assert node.read()["slurm.nodes"]["value"]["w1"]["state"] == ["IDLE~"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'STATUS:           Success (0)'", "Success"),
        ("echo 'STATUS:           Expired credential (15)'; exit 15", "Expired credential"),
        ("echo 'unmunge: Error: Invalid credential' >&2; exit 8", "Invalid credential"),
    ],
)
def test_the_words_of_munge_are_kept(node: Node, script: str, said: str) -> None:
    node.tool("unmunge", script)
    assert node.read(credential="MUNGE:x:")["munge.decoded"] == {"value": said}


def test_a_credential_never_shows_in_an_argument_of_a_command(node: Node) -> None:
    node.tool("unmunge", "/bin/cat >/dev/null; echo 'STATUS: Success (0)'")
    record = collect.collect({"credential": "MUNGE:secret:"})
    assert "secret" not in json.dumps(record)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_credentials_are_made_as_nobody(node: Node) -> None:
    node.tool("munge", "/usr/bin/id -un")
    # The folder of this test is closed to others; the tool itself must be reachable.
    folder = node.bin
    while folder != folder.parent:
        if folder.stat().st_uid == os.geteuid() and "pytest" in str(folder):
            folder.chmod(0o755)
        folder = folder.parent
    assert node.read()["munge.credential"] == {"value": "nobody"}


def test_files_are_hashed_and_an_absent_one_is_a_value(node: Node) -> None:
    node.file("/etc/a", "x")
    node.file("/etc/folder/b", "x")
    node.file("/etc/link", "x")
    link = node.root / "etc/link"
    link.unlink()
    link.symlink_to("a")
    wanted = ["/etc/a", "/etc/none", "/etc/folder", "/etc/link"]
    seen = node.read(files=wanted)["files"]["value"]
    assert seen["/etc/a"]["sha256"].startswith("2d711642b726b044")
    assert seen["/etc/none"] == {"absent": True}
    assert seen["/etc/folder"]["other"] == "a folder"
    assert (
        seen["/etc/folder"]["mode"]
        == f"{stat.S_IMODE((node.root / 'etc/folder').stat().st_mode):o}"
    )
    assert seen["/etc/link"]["other"] == "a symbolic link"


def test_nothing_is_written(node: Node) -> None:
    """Every call that could write is absent from the source: the probe only reads.

    One module keeps files in a folder of its own, on nodes that Lockstep deploys.
    """
    reads = [one for one in shipped("lockstep.node.readers.kept") if isinstance(one, ast.Call)]
    calls = [ast.unparse(call.func) for call in reads]
    for name in ("os.remove", "os.unlink", "os.rename", "os.mkdir", "os.chmod", "os.system"):
        assert name not in calls
    opened = [call for call in reads if ast.unparse(call.func) == "open"]
    assert opened
    for call in opened:
        modes = [ast.unparse(argument) for argument in call.args[1:2]]
        assert modes in ([], ["'rb'"])
    before = sorted(str(path) for path in node.root.parent.rglob("*"))
    node.read(files=["/etc/a"])
    assert sorted(str(path) for path in node.root.parent.rglob("*")) == before


def test_the_program_is_python_3_9_and_standard_library() -> None:
    own = sources()
    for statement in shipped():
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names = [statement.module or ""]
        for name in names:
            ours = name in own or f"{name}.".startswith(f"{PACKAGE}.")
            assert ours or name.split(".")[0] in sys.stdlib_module_names
        # Added in 3.10: it would fail on the node only when it is reached.
        if isinstance(statement, ast.Call) and isinstance(statement.func, ast.Name):
            if statement.func.id != "zip":
                continue
            assert "strict" not in [keyword.arg for keyword in statement.keywords]


def test_the_program_runs_on_python_3_9() -> None:
    python = shutil.which("python3.9")
    if python is None or subprocess.run([python, "-V"], capture_output=True).returncode != 0:
        pytest.skip("no python3.9 here")
    line = command(Request(files=("/etc/hostname",))).replace("python3", f"{python} -W error", 1)
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert parse(done.stdout).get("kernel.release") == os.uname().release


def test_the_command_carries_names_only_and_stays_short() -> None:
    request = Request(files=tuple(f"/etc/some/file/{n}" for n in range(20)), units=("a.service",))
    text = command(request)
    assert len(text) < LARGEST_COMMAND
    asked = json.loads(base64.b64decode(text.split()[-1]))
    options = {"credential", "describe", "fingerprint", "housekeeping_cpus"}
    assert set(asked) <= {*options, *take.NAMES}
    with pytest.raises(ValueError, match=f"limit {LARGEST_COMMAND}"):
        command(Request(files=tuple(f"/etc/some/file/{n}" for n in range(10000))))


def test_a_request_too_long_for_one_command_is_sent_with_standard_input(tmp_path: Path) -> None:
    """A large hardware class asks for much, and every new reader makes the program longer."""
    request = Request(files=("/etc/hostname", *(f"/etc/some/file/{n}" for n in range(1000))))
    with pytest.raises(ValueError, match=f"limit {LARGEST_COMMAND}"):
        command(request)
    line, stdin = with_input(request)
    assert len(line) < LARGEST_COMMAND
    done = subprocess.run(
        ["sh", "-c", line],
        input="".join(f"{text}\n" for text in stdin),
        capture_output=True,
        text=True,
        check=True,
    )
    files = parse(done.stdout).get("files")
    assert isinstance(files, dict)
    assert len(files) == 1001
    for one in in_pieces(request, f"{tmp_path}/here"):
        done = subprocess.run(["sh", "-c", one], capture_output=True, text=True, check=True)
    assert parse(done.stdout).get("files") == files
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(ValueError, match=f"limit {LARGEST_COMMAND}"):
        with_input(Request(files=tuple(f"/etc/some/file/{n}" for n in range(10000))))


def test_the_shipped_command_prints_a_record() -> None:
    done = subprocess.run(
        ["sh", "-c", command(Request(files=("/etc/hostname",)))],
        capture_output=True,
        text=True,
        check=True,
    )
    record = parse(done.stdout)
    assert record.get("kernel.release") == os.uname().release
    assert done.stderr == ""


def test_a_program_in_pieces_prints_a_record_and_leaves_nothing(tmp_path: Path) -> None:
    """As root over ssh, which hands a command to a shell that hands it to another one."""
    request = Request(
        fingerprint="it's a cluster", asked=(("user", "#0"),), own=(("name", "root"),)
    )
    commands = in_pieces(request, f"{tmp_path}/it's here")
    assert len(commands) > 1
    for one in commands:
        whole = f"sh -c {shlex.quote(one)}"
        assert len(shlex.quote(whole)) < 128 << 10
        done = subprocess.run(["sh", "-c", whole], capture_output=True, text=True, check=True)
        if one is not commands[-1]:
            assert (tmp_path / "it's here").stat().st_mode & 0o777 == 0o700
    assert "<name of this node>" in str(parse(done.stdout).get("fingerprint"))
    assert [*tmp_path.iterdir()] == []


def test_a_program_in_pieces_never_joins_the_text_of_another(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    first, *_ = in_pieces(Request(fingerprint="cluster"), f"{tmp_path}/here")
    assert subprocess.run(["sh", "-c", first], capture_output=True, check=False).returncode != 0
    assert [*(tmp_path / "here").iterdir()] == []


def test_nothing_of_the_same_name_on_the_node_is_used(tmp_path: Path) -> None:
    other = tmp_path / PACKAGE.replace(".", "/")
    other.mkdir(parents=True)
    for name in ("reading", "collect"):
        (other / f"{name}.py").write_text("raise SystemExit('the other one')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", command(Request())],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    parse(done.stdout)


def test_a_traceback_names_the_line_of_the_source() -> None:
    words = command(Request()).split(" ")
    done = subprocess.run(
        ["sh", "-c", " ".join([*words[:-1], "bm8="])], capture_output=True, text=True, check=False
    )
    place = re.search(r'File "lockstep/node/readers/collect.py", line (\d+), in main', done.stderr)
    assert place, done.stderr
    line = sources()[f"{PACKAGE}.collect"].splitlines()[int(place.group(1)) - 1]
    assert "json.loads(" in line


Reader = Callable[[dict[str, Any], commands.Commands], dict[str, Any]]


def test_a_reader_that_never_ends_is_given_up(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(request: dict[str, Any], commands: commands.Commands) -> dict[str, Any]:
        time.sleep(3)
        return {"x": 1}

    monkeypatch.setattr(collect, "FOR_A_CHECK", [(stuck, ("x",))])
    monkeypatch.setattr(take, "READER_TIMEOUT_S", 0.2)
    assert collect.collect({})["readings"] == {"x": {"unread": "no answer within 0.2 s"}}
