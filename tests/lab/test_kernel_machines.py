"""Machines with their own kernels (QEMU), end to end: one head and one worker."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import places, state
from lab.state import LabState
from tests.lab.test_machines import REPOSITORY, traces

NAME = "test-kernel-machines"
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
REBOOTED_WITHIN_S = 300.0

pytestmark = [
    pytest.mark.lab,
    pytest.mark.kernel,
    pytest.mark.skipif(os.geteuid() != 0, reason="making machines needs root"),
]


def lab(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", "--name", NAME, *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        input=given,
        timeout=1800,
    )


def done(*words: str) -> str:
    result = lab(*words)
    assert result.returncode == 0, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def on(node: str, script: str) -> str:
    return done("run", node, "--", "sh", "-c", script)


def loop_devices() -> list[str]:
    listed = subprocess.check_output(["losetup", "--list", "--noheadings", "--output=BACK-FILE"])
    return [line for line in listed.decode().splitlines() if str(places.lab_folder(NAME)) in line]


@pytest.fixture(scope="module")
def machines() -> Iterator[LabState]:
    done("up", "--kernel", "own", "--workers", "1")
    try:
        yield state.load(NAME)
    finally:
        done("down")
    assert traces(NAME) == []
    assert loop_devices() == []


def test_each_node_has_a_kernel_of_its_own(machines: LabState) -> None:
    boots = {on(node.name, BOOT_ID) for node in machines.nodes}
    boots.add(Path("/proc/sys/kernel/random/boot_id").read_text())
    assert len(boots) == len(machines.nodes) + 1
    assert on("worker1", "uname -v") != f"{os.uname().version}\n"
    assert on("worker1", "systemd-detect-virt --container || true") == "none\n"
    for node in machines.nodes:
        assert on(node.name, "systemctl is-system-running") == "running\n"
    seen = json.loads(done("status", "--json"))
    assert (seen["kernel"], seen["accelerator"]) == ("own", machines.accelerator)


def test_hardware_is_what_the_state_says(machines: LabState) -> None:
    for node in machines.nodes:
        hardware = machines.hardware[node.role]
        listed = on(node.name, "lscpu --parse=CPU,SOCKET,NODE | grep -v '#'").split()
        assert listed == ["0,0,0", "1,0,0", "2,1,1", "3,1,1"]
        assert (hardware.sockets, hardware.cores_per_socket, hardware.threads_per_core) == (2, 2, 1)
        assert hardware.numa_nodes == 2
        total = int(on(node.name, "grep MemTotal /proc/meminfo").split()[1]) // 1024
        assert total - 300 < hardware.memory_mib <= total
        sizes = on(node.name, "ls /sys/kernel/mm/hugepages").split()
        assert sizes == ["hugepages-1048576kB", "hugepages-2048kB"]


def test_control_groups_have_their_controllers(machines: LabState) -> None:
    controllers = on("worker1", "cat /sys/fs/cgroup/cgroup.controllers").split()
    assert {"cpuset", "hugetlb", "memory", "rdma"} <= set(controllers)


def test_network_is_ipv6_alone_and_has_no_way_out(machines: LabState) -> None:
    listed = json.loads(on("worker1", "ip -json address"))
    assert {entry["ifname"] for entry in listed} == {"lo", "mgmt0", "fabric0"}
    families = {
        entry["ifname"]: {address["family"] for address in entry["addr_info"]} for entry in listed
    }
    assert families["mgmt0"] == families["fabric0"] == {"inet6"}
    assert "default" not in on("worker1", "ip -6 route; ip -4 route")
    on("worker1", f"ping -6 -c1 -W10 {machines.node('head').address}")


def test_rdma_device_is_active(machines: LabState) -> None:
    assert "PORT_ACTIVE" in on("worker1", "ibv_devinfo --ib-dev=rxe0")
    assert "netdev fabric0" in on("worker1", "rdma link show rxe0/1")
    assert on("head", "ls /sys/class/infiniband 2>/dev/null || true") == ""


def test_nothing_is_left_to_install(machines: LabState) -> None:
    versions = json.loads(Path(machines.archive_versions).read_text())
    for package in ("slurmd", "chrony", "linux-image-amd64"):
        query = f"dpkg-query --show --showformat='${{Version}}' {package}"
        assert on("worker1", query) == versions[package]
    assert on("worker1", "systemctl is-enabled slurmd") == "enabled\n"


def test_run_passes_everything_through(machines: LabState) -> None:
    script = 'printf "%s|" "$@"; cat; echo wrong >&2; exit 7'
    words = ("run", "worker1", "--", "sh", "-c", script, "sh", "a b", "", "--", "$HOME")
    result = lab(*words, given="given")
    assert (result.stdout, result.stderr, result.returncode) == (
        "a b||--|$HOME|given",
        "wrong\n",
        7,
    )
    assert lab("run", "worker1", "--", "no-such-program").returncode == 127
    assert len(on("worker1", "sleep 3; head -c 3000000 /dev/zero")) == 3_000_000
    assert on("worker1", "echo $HOME; id -un") == "/root\nroot\n"


def test_two_commands_at_once(machines: LabState) -> None:
    words = [sys.executable, "-m", "lab", "--name", NAME, "run", "worker1", "--", "sleep"]
    with subprocess.Popen([*words, "8"], cwd=REPOSITORY) as slow:
        time.sleep(2)
        assert on("worker1", "echo meanwhile") == "meanwhile\n"
        assert slow.poll() is None
        assert slow.wait(timeout=60) == 0


def test_cut_network_leaves_the_console(machines: LabState) -> None:
    done("cut", "worker1")
    assert lab("ssh", "worker1", "--", "true").returncode == 255
    assert on("worker1", "echo here") == "here\n"
    assert lab("status").returncode == 1
    done("reconnect", "worker1")
    done("ssh", "worker1", "--", "true")


def test_gpus_of_a_running_node(machines: LabState) -> None:
    done("gpu", "worker1", "--gpu", "3", "--set", "enforced.power.limit=350")
    query = "nvidia-smi -i 3 --query-gpu=enforced.power.limit --format=csv,noheader"
    assert on("worker1", query) == "350.00 W\n"
    refused = lab("gpu", "worker1", "--gpu", "3", "--set", "no.such=1")
    assert refused.returncode == 3
    assert 'unknown field "no.such"' in refused.stderr
    done("gpu", "worker1", "--gpu", "5", "--remove")
    assert on("worker1", "ls /dev/nvidia[0-9]* | wc -l") == "7\n"
    assert len(json.loads(done("gpu", "worker1", "--json"))["gpus"]) == 8


def test_kernel_command_line_acts_after_a_reboot_from_inside(machines: LabState) -> None:
    on(
        "worker1",
        "mkdir -p /etc/default/grub.d && echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX"
        " isolcpus=3 hugepagesz=1G hugepages=1\"' > /etc/default/grub.d/50-test.cfg && update-grub",
    )
    before = on("worker1", BOOT_ID)
    lab("run", "worker1", "--", "systemctl", "reboot")
    deadline = time.monotonic() + REBOOTED_WITHIN_S
    while lab("run", "worker1", "--", "sh", "-c", BOOT_ID).stdout in ("", before):
        assert time.monotonic() < deadline
        time.sleep(2)
    assert on("worker1", "cat /sys/devices/system/cpu/isolated") == "3\n"
    assert on("worker1", "cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages") == "1\n"
    assert state.load(NAME).node("worker1").process == machines.node("worker1").process


def test_power_cut_keeps_the_disk_and_boots_anew(machines: LabState) -> None:
    before = on("worker1", f"echo kept > /etc/kept; sync; {BOOT_ID}")
    done("power-off", "worker1")
    status = lab("status")
    assert status.returncode == 1
    assert "off" in status.stdout
    refused = lab("run", "worker1", "--", "true")
    assert refused.returncode == 1
    assert f"lockstep lab --name {NAME} power-on worker1" in refused.stderr
    done("gpu", "worker1", "--reset")
    done("power-on", "worker1")
    assert on("worker1", "cat /etc/kept") == "kept\n"
    assert on("worker1", BOOT_ID) != before
    assert on("worker1", "ls /dev/nvidia[0-9]* | wc -l") == "8\n"
    done("ssh", "worker1", "--", "true")


def test_kind_of_kernel_does_not_change(machines: LabState) -> None:
    refused = lab("up", "--kernel", "shared")
    assert refused.returncode == 3
    assert "has nodes with kernel 'own'" in refused.stderr
    done("up")
    assert state.load(NAME).nodes[0] == machines.nodes[0]
