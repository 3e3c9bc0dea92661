"""Sysctls on a small tree of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from lockstep.node.fingerprint.entry import Fields, Secret
from lockstep.node.fingerprint.exempt import by_domain, without_exceptions
from lockstep.node.fingerprint.modules import read_running_kernel
from lockstep.node.fingerprint.sysctl import (
    COMPUTED,
    EXCEPTIONS_OF_SYSCTL,
    read_sysctl,
    shown,
)
from lockstep.node.readers.commands import Commands
from tests.probe.test_collect import Node, node

__all__ = ["node"]

GIB = 1 << 20


def found(read: Callable[..., object] = read_sysctl) -> dict[str, Fields]:
    """The objects that are compared, by name."""
    table = by_domain(EXCEPTIONS_OF_SYSCTL)
    kept = {}
    for entry in read({}, Commands()):  # type: ignore[attr-defined]
        fields = without_exceptions("sysctl", entry, table)
        if fields is not None:
            assert entry.name not in kept
            kept[entry.name] = fields
    return kept


def test_a_value_is_an_object(node: Node) -> None:
    node.file("/proc/sys/vm/swappiness", "60\n")
    node.file("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    assert found() == {
        "vm.swappiness": {"value": "60"},
        "net.ipv4.tcp_rmem": {"value": "4096 131072 6291456"},
    }


def test_the_values_of_an_interface_are_one_object(node: Node) -> None:
    node.file("/proc/sys/net/ipv4/conf/eth0.5/rp_filter", "1\n")
    node.file("/proc/sys/net/ipv4/conf/eth0.5/arp_ignore", "0\n")
    assert found() == {"net.ipv4.conf.eth0/5": {"rp_filter": "1", "arp_ignore": "0"}}


def test_interfaces_of_containers_are_left_out(node: Node) -> None:
    node.file("/sys/class/net/eth0/ifindex", "2\n")
    node.file("/sys/class/net/eth0/iflink", "2\n")
    for name, index, peer in (
        *(("veth1a2b3c4", "7", "77"), ("veth0", "8", "9"), ("veth9", "9", "8")),
        # Its peer in the pod happens to have the index of eth0 here.
        ("cali0123456789a", "10", "2"),
    ):
        node.file(f"/sys/class/net/{name}/ifindex", f"{index}\n")
        node.file(f"/sys/class/net/{name}/iflink", f"{peer}\n")
        node.file(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "1\n")
    # These two are the ends of an operator's pair.
    assert set(found()) == {"net.ipv4.conf.veth0", "net.ipv4.conf.veth9"}


def test_counters_are_exceptions_and_their_neighbours_are_not(node: Node) -> None:
    for path in ("fs/file-nr", "fs/file-max", "kernel/ns_last_pid", "kernel/pid_max"):
        node.file(f"/proc/sys/{path}", "7\n")
    assert set(found()) == {"fs.file-max", "kernel.pid_max"}


def test_reading_has_no_effect(node: Node) -> None:
    for path in ("fs/binfmt_misc/status", "vm/stat_refresh", "kernel/random/uuid"):
        node.file(f"/proc/sys/{path}", "1\n")
    assert found() == {}


def test_secrets_of_the_kernel_are_never_shown(node: Node) -> None:
    node.file("/proc/sys/net/ipv9/stable_secret", "2001:db8::1\n")
    assert isinstance(found()["net.ipv9.stable_secret"]["value"], Secret)


@pytest.mark.parametrize(
    ("key", "value", "memory"),
    [
        ("kernel.threads-max", "192731", 24684124),
        ("user.max_pid_namespaces", "96365", 24684124),
        ("fs.file-max", "2466183", 24684124),
        ("fs.epoll.max_user_watches", "5491533", 24684124),
        ("fs.inotify.max_user_watches", "192536", 24684124),
        # A machine with 2 TiB: MemTotal and the values of its kernel.
        ("net.ipv4.tcp_mem", "24768522 33024697 49537044", 2113663992),
        ("net.ipv4.udp_mem", "49537044 66049395 99074088", 2113663992),
        ("vm.min_free_kbytes", "183897", 2113663992),
    ],
)
def test_what_the_kernel_computes_from_the_memory_size_is_equal(
    key: str, value: str, memory: int
) -> None:
    assert shown(key, value, memory) == COMPUTED
    # A few pages less make no difference, and an operator's value does.
    assert shown(key, value, memory - 5000) == COMPUTED
    chosen = "1048576 2097152 4194304" if " " in value else "4194304"
    assert shown(key, chosen, memory) == chosen


def running() -> dict[str, Fields]:
    return {entry.name: entry.fields for entry in read_running_kernel({}, Commands())}


def test_a_value_that_is_not_as_configured(node: Node) -> None:
    node.file("/proc/sys/vm/swappiness", "60\n")
    node.file("/proc/sys/vm/overcommit_memory", "1\n")
    node.file("/usr/lib/sysctl.d/10-a.conf", "vm.swappiness = 60\nvm.overcommit_memory=0x1\n")
    assert running() == {}
    node.file("/etc/sysctl.d/20-b.conf", "# mine\n-vm/swappiness = 10\nno.such.key = 1\n")
    assert running() == {
        "sysctl vm.swappiness": {
            "running": "60",
            "configured": "10",
            "file": "/etc/sysctl.d/20-b.conf",
        }
    }
    node.file("/run/sysctl.d/20-b.conf", "vm.swappiness = 1\n")
    assert running()["sysctl vm.swappiness"]["configured"] == "10"


def test_patterns_yield_to_plain_keys_and_exclusions(node: Node) -> None:
    for name in ("all", "eth0", "eth1", "eth2"):
        node.file(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "0\n")
    node.file(
        "/etc/sysctl.d/30-c.conf",
        "net.ipv4.conf.eth1.rp_filter = 0\n-net.ipv4.conf.eth2.rp_filter\n"
        "net.ipv4.conf.*.rp_filter = 2\n",
    )
    assert set(running()) == {
        "sysctl net.ipv4.conf.all.rp_filter",
        "sysctl net.ipv4.conf.eth0.rp_filter",
    }


def test_a_module_that_is_not_loaded(node: Node) -> None:
    node.file("/sys/module/nvme_core/initstate", "live\n")
    node.file("/etc/modules-load.d/x.conf", "# for RDMA\nnvme-core\nib_umad\n")
    assert running() == {
        "module ib_umad": {
            "running": "not loaded",
            "configured": "loaded",
            "file": "/etc/modules-load.d/x.conf",
        }
    }


def test_a_sysctl_that_a_container_cannot_set_is_its_host_s(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in systemd-nspawn, which mounts /proc/sys read-only and /proc/sys/net writable."""
    node.file("/usr/lib/sysctl.d/10-a.conf", "fs.protected_fifos = 1\nnet.core.somaxconn = 9\n")
    node.file("/proc/sys/fs/protected_fifos", "0\n")
    node.file("/proc/sys/net/core/somaxconn", "8\n")
    assert len(running()) == 2

    def statvfs(path: str) -> SimpleNamespace:
        return SimpleNamespace(f_flag=0 if "/proc/sys/net/" in path else os.ST_RDONLY)

    monkeypatch.setattr(os, "statvfs", statvfs)
    assert list(running()) == ["sysctl net.core.somaxconn"]
