"""Objects of the domain ``listener``."""

from __future__ import annotations

import pytest

from tests.node.fingerprint.daemon_node import Node, node

__all__ = ["node"]
SSH = "tcp LISTEN 0 128 0.0.0.0:22 0.0.0.0:* ino:31 sk:1 cgroup:/system.slice/ssh.service <->"


def listeners(node: Node, *lines: str) -> dict[str, dict[str, str]]:
    node.file("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    node.tool("ss", "cat <<'E'\n" + "\n".join(lines) + "\nE")
    return node.read("listener")


def test_a_port_has_its_unit(node: Node) -> None:
    assert listeners(node, SSH, SSH.replace("ino:31", "uid:107 ino:32").replace(":22", ":23")) == {
        "tcp 0.0.0.0:22": {"unit": "ssh.service", "user": "root"},
        "tcp 0.0.0.0:23": {"unit": "ssh.service", "user": "munge"},
    }


@pytest.mark.parametrize(
    ("group", "port", "name"),
    [
        ("/system.slice/containerd.service", 41017, "chosen by the kernel for containerd.service"),
        ("/system.slice/n1_slurmstepd.scope/system", 41017,
         "chosen by the kernel for slurmstepd.scope"),
        ("/system.slice/agent.service", 41017, "41017"),
        ("/system.slice/containerd.service", 1338, "1338"),
        ("/system.slice/echo.socket", 7, "7"),
    ],
)  # fmt: skip
def test_names_of_ports(node: Node, group: str, port: int, name: str) -> None:
    line = SSH.replace("0.0.0.0:22", f"127.0.0.1:{port}").replace(
        "/system.slice/ssh.service", group
    )
    assert list(listeners(node, line)) == [f"tcp 127.0.0.1:{name}"]


@pytest.mark.parametrize(
    "group",
    ["/system.slice/n1_slurmstepd.scope/job_5/step_0", "/system.slice/docker-0a.scope",
     "/kubepods.slice/x", f"/k8s.io/{'a7' * 32}", "/user.slice/user-1000.slice/session-3.scope"],
)  # fmt: skip
def test_ports_of_jobs_containers_and_people_are_no_objects(node: Node, group: str) -> None:
    assert listeners(node, SSH.replace("/system.slice/ssh.service", group)) == {}


@pytest.mark.parametrize(
    ("group", "address", "names"),
    [
        ("/system.slice/rpc-statd.service", "0.0.0.0:731",
         ["tcp 0.0.0.0:chosen by rpc-statd.service"]),
        ("/system.slice/rpcbind.service", "0.0.0.0:111", ["tcp 0.0.0.0:111"]),
        ("/user.slice/user-0.slice/session-3.scope", "0.0.0.0:8000", ["tcp 0.0.0.0:8000"]),
        ("/user.slice/user-0.slice/session-3.scope", "127.0.0.1:6010", []),
        ("/user.slice/user-0.slice/session-3.scope", "0.0.0.0:41000", []),
    ],
)  # fmt: skip
def test_ports_of_remote_calls_and_logins(
    node: Node, group: str, address: str, names: list[str]
) -> None:
    line = SSH.replace("0.0.0.0:22", address, 1).replace("/system.slice/ssh.service", group)
    assert list(listeners(node, line)) == names


def test_a_port_of_the_kernel(node: Node) -> None:
    line = "tcp LISTEN 0 64 0.0.0.0:2049 0.0.0.0:* ino:0 sk:2 <->"
    assert listeners(node, line) == {"tcp 0.0.0.0:2049": {"unit": "kernel", "user": "root"}}
    assert list(listeners(node, line.replace("2049", "45001"))) == [
        "tcp 0.0.0.0:chosen by the kernel for kernel"
    ]


def test_clients_on_udp_are_no_objects(node: Node) -> None:
    line = SSH.replace("tcp LISTEN", "udp UNCONN")
    assert list(listeners(node, line.replace(":22", ":514"))) == ["udp 0.0.0.0:514"]
    assert listeners(node, line.replace(":22", ":45001")) == {}


def test_kernels_before_5_8_do_not_say_the_unit(node: Node) -> None:
    seen = listeners(node, "tcp LISTEN 0 128 *:22 *:* ino:31 sk:1 <->")
    assert seen == {"tcp *:22": {"unit": "unknown", "user": "root"}}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/run/agent.sock", "/run/agent.sock"),
        ("/var/run/docker/metrics.sock", "/run/docker/metrics.sock"),
        ("@agent", "@agent"),
        ("/run/docker/libnetwork/ce1f40d65c37.sock", ""),
        ("/tmp/ssh-abc/agent.77", ""),
        ("/run/user/0/bus", ""),
        ("/var/spool/slurmd/n1_7.0", ""),
        ("@0000f", ""),
        ("@/tmp/dbus-x", ""),
    ],
)
def test_sockets_with_paths(node: Node, path: str, name: str) -> None:
    seen = listeners(node, f"u_str LISTEN 0 4096 {path} 310294 * 0 <-> ino:42 dev:0/69 peers:")
    assert list(seen) == ([f"unix {name}"] if name else [])


def test_each_exception_spares_its_neighbour(node: Node) -> None:
    line = SSH.replace("tcp LISTEN", "udp UNCONN")
    assert listeners(node, line.replace(":22", ":68")) == {}
    assert list(listeners(node, line.replace(":22", ":67"))) == ["udp 0.0.0.0:67"]
