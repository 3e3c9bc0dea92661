"""The readings of ``lockstep describe``, on small trees of files."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import zlib
from typing import Any

import pytest

from lockstep.node.describe import readers
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.probe import ship
from tests.probe.test_collect import Node, node

__all__ = ["node"]

CPU = "/sys/devices/system/cpu"


def cpus(node: Node, siblings: dict[int, tuple[str, str]]) -> None:
    """Make CPUs: number -> the socket, and the threads of its core."""
    node.file(f"{CPU}/online", f"0-{len(siblings) - 1}\n")
    for number, (socket, threads) in siblings.items():
        node.file(f"{CPU}/cpu{number}/topology/physical_package_id", f"{socket}\n")
        node.file(f"{CPU}/cpu{number}/topology/thread_siblings_list", f"{threads}\n")


def processors() -> Any:
    return readers.read_processors({}, Commands())["describe.processors"]


@pytest.mark.parametrize(
    ("siblings", "adjacent"),
    [
        ({0: ("0", "0,2"), 1: ("1", "1,3"), 2: ("0", "0,2"), 3: ("1", "1,3")}, False),
        ({0: ("0", "0-1"), 1: ("0", "0-1"), 2: ("1", "2-3"), 3: ("1", "2-3")}, True),
    ],
)
def test_processors(node: Node, siblings: dict[int, tuple[str, str]], adjacent: bool) -> None:
    cpus(node, siblings)
    found = processors()
    assert (found["sockets"], found["cores_per_socket"], found["threads_per_core"]) == (2, 1, 2)
    assert found["adjacent"] is adjacent
    assert found["architecture"] == os.uname().machine


def test_a_core_that_is_half_offline_makes_the_topology_unknown(node: Node) -> None:
    cpus(node, {0: ("0", "0,2"), 1: ("0", "1"), 2: ("0", "0,2")})
    with pytest.raises(Unread, match="offline"):
        processors()


def test_addresses_have_their_prefix_and_temporary_ones_are_left_out(node: Node) -> None:
    rows = [
        {"ifname": "lo", "addr_info": [_address("127.0.0.1", 8, "host")]},
        {
            "ifname": "eno1",
            "addr_info": [
                _address("192.0.2.1", 24),
                _address("fe80::1", 64, "link"),
                {**_address("2001:db8::2", 64), "temporary": True},
                _address("2001:db8::1", 64),
            ],
        },
        {"ifname": "eno2", "addr_info": []},
    ]
    node.tool("ip", f"echo '{json.dumps(rows)}'")
    found = readers.read_addresses({}, Commands())["describe.addresses"]
    assert found == {"eno1": ["192.0.2.1/24", "2001:db8::1/64"]}


def _address(local: str, length: int, scope: str = "global") -> dict[str, Any]:
    return {"local": local, "prefixlen": length, "scope": scope}


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        ("10.0.0.9 40000 10.0.0.1 22", "10.0.0.1"),
        ("fe80::9%eth0 40000 fe80::1%eth0 22", "fe80::1"),
        ("::ffff:10.0.0.9 40000 ::ffff:10.0.0.1 22", "10.0.0.1"),
    ],
)
def test_the_address_of_the_connection_is_found_behind_sudo(
    node: Node, connection: str, address: str
) -> None:
    node.file("/proc/self/environ", "PATH=/bin\0SUDO_USER=ops\0")
    node.file("/proc/self/stat", "30 (python3) S 20 0 0")
    node.file("/proc/20/environ", "PATH=/bin\0")
    node.file("/proc/20/stat", "20 (sudo ) x) S 10 0 0")
    node.file("/proc/10/environ", f"USER=ops\0SSH_CONNECTION={connection}\0")
    assert readers.read_reached_at({}, Commands()) == {"describe.reached_at": address}


def test_a_program_without_ssh_has_no_such_address(node: Node) -> None:
    node.file("/proc/self/environ", "")
    node.file("/proc/self/stat", "30 (python3) S 1 0 0")
    node.file("/proc/1/environ", "")
    node.file("/proc/1/stat", "1 (systemd) S 0 0 0")
    with pytest.raises(Unread, match="SSH_CONNECTION"):
        readers.read_reached_at({}, Commands())


def test_time_servers_of_chronyd(node: Node) -> None:
    node.file(
        "/etc/chrony/chrony.conf",
        "# server no.example.net\nserver a.example.net iburst\nconfdir /etc/chrony/conf.d\n",
    )
    node.file("/etc/chrony/sources.d/site.sources", "Pool b.example.net\n")
    assert _servers() == ["a.example.net", "b.example.net"]


def test_time_servers_of_timesyncd(node: Node) -> None:
    node.tool("timedatectl", "echo SystemNTPServers=; echo 'FallbackNTPServers=a.net b.net'")
    assert _servers() == ["a.net", "b.net"]


def _servers() -> Any:
    return readers.read_time_servers({}, Commands())["describe.time_servers"]


CONF = """\
ClusterName=Hand
SlurmctldHost=head(10.0.0.1)
SlurmctldHost=spare
StateSaveLocation=/secret
NodeName=DEFAULT RealMemory=1000 MemSpecLimit=100
NodeName=w[1-2] CPUs=4
NodeName=w3 CPUs=8
NodeSet=big Nodes=w3
PartitionName=a Nodes=w[1-2],big Default=YES MaxTime=1:00:00
PartitionName=b Nodes=ALL
"""


def test_slurm_conf(node: Node) -> None:
    node.file("/etc/slurm/slurm.conf", CONF)
    assert readers.read_slurm({}, Commands())["describe.slurm"] == {
        "settings": {"clustername": "Hand"},
        "controllers": ["head", "spare"],
        "nodes": [
            {"names": "w[1-2]", "memspeclimit": "100"},
            {"names": "w3", "memspeclimit": "100"},
        ],
        "partitions": {
            "a": {"nodes": "w[1-2],w3", "default": "YES", "maxtime": "1:00:00"},
            "b": {"nodes": "w[1-2],w3"},
        },
    }


def test_a_node_without_slurm_has_no_slurm_conf(node: Node) -> None:
    assert readers.read_slurm({}, Commands()) == {"describe.slurm": {}}


def test_nvswitches_and_containers(node: Node) -> None:
    node.file("/run/systemd/container", "systemd-nspawn\n")
    for number, (vendor, kind) in enumerate(
        [("0x10de", "0x068000"), ("0x10de", "0x030200"), ("0x8086", "0x068000")]
    ):
        node.file(f"/sys/bus/pci/devices/0000:0{number}:00.0/vendor", vendor)
        node.file(f"/sys/bus/pci/devices/0000:0{number}:00.0/class", kind)
    assert readers.read_machine({}, Commands()) == {
        "describe.machine": {"container": "systemd-nspawn", "nvswitches": 1}
    }


def unpacked(line: str) -> str:
    packed = re.search(r"b64decode\('([^']+)'\)", line)
    assert packed is not None
    return zlib.decompress(base64.b64decode(packed.group(1))).decode()


def test_the_program_of_a_check_does_not_have_these_modules() -> None:
    (_, _), (words, (program, _)) = (
        ship.with_input(ship.Request()),
        ship.with_input(ship.Request(describe=True)),
    )
    assert "lockstep.node.describe" in unpacked(program)
    assert not [name for name in ship.sources() if "describe" in name]
    done = subprocess.run(
        words,
        shell=True,
        input=f"{program}\n{json.dumps({'describe': True})}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    marker, record = done.stdout.splitlines()
    names = {name for _, names in readers.READERS for name in names}
    assert json.loads(record)["readings"].keys() >= names | readers.OF_A_CHECK
    assert marker == "LOCKSTEP-RECORD 1"
