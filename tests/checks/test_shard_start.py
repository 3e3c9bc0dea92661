"""The process that reads nodes imports only what it needs, because each check starts it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paramiko import Channel, ECDSAKey, SSHException, Transport
from paramiko.common import AUTH_SUCCESSFUL
from typing_extensions import override

from lockstep.fleet.share import Share, dumps
from lockstep.probe.lines import MARKER
from lockstep.probe.parse import node_of
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.probe.ship import Request
from tests.fast.test_transport import Sessions

HEAVY = ("pydantic", "msgspec", "ClusterShell", "lockstep.plan", "lockstep.inventory")


def said_by(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


def test_it_imports_no_models_and_no_plan() -> None:
    program = f"""
import sys
from lockstep.fleet import read_nodes
from lockstep.fleet.share import Share
read_nodes._state(Share({{}}, {{"worker1": {{}}}}, {{}}), ["worker1"])
print([m for m in {HEAVY} if m in sys.modules])
"""
    assert said_by(program) == "[]\n"


class Node(Sessions):
    """Lets everybody in, and gives a record."""

    @override
    def check_auth_password(self, username: str, password: str) -> int:
        return int(AUTH_SUCCESSFUL)

    @override
    def answer(self, channel: Channel) -> None:
        channel.sendall(f"{MARKER}\n{json.dumps(RECORD)}\n".encode())
        channel.send_exit_status(0)
        channel.close()


RECORD = {"format": 1, "taken_at": 0, "duration_s": 0, "readings": {}}


@dataclass
class Served:
    """An ssh server."""

    port: int
    key: ECDSAKey
    most: int = 0
    """Connections at a time."""


@contextmanager
def served() -> Iterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = Served(listening.getsockname()[1], ECDSAKey.generate())
        opened: list[Transport] = []

        def serve() -> None:
            with suppress(OSError):  # no longer listened to
                while True:
                    transport = Transport(listening.accept()[0])
                    opened.append(transport)
                    transport.add_server_key(found.key)
                    node = Node(most=1)
                    node.transport = transport
                    with suppress(SSHException, EOFError):  # who came is gone again
                        transport.start_server(server=node)
                    found.most = max(found.most, sum(one.is_active() for one in opened))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield found
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(20)
            for transport in opened:
                transport.close()


def test_an_unknown_jump_host_is_reported_without_a_prompt(tmp_path: Path) -> None:
    """pyinfra would ask on standard output, where the records are, and hear what is none."""
    with served() as jump:
        config = tmp_path / "config"
        config.write_text(
            f"Host behind\n  ProxyJump someone@127.0.0.1:{jump.port}\n  HostName 192.0.2.1\n"
        )
        login = {"ssh_hostname": "behind", "ssh_config_file": str(config), "ssh_user": "ops"}
        reading = read(shared(login), tmp_path)
    for got in reading.values():
        assert isinstance(got, Unreachable)
        assert got.reason == (
            "the host key of the jump host 127.0.0.1 is unknown: it presents ecdsa "
            f"{jump.key.fingerprint}, and {tmp_path}/.ssh/known_hosts has no key of "
            f"'[127.0.0.1]:{jump.port}'. Next: compare this fingerprint with its own (on its "
            "console: ssh-keygen -lf /etc/ssh/ssh_host_ecdsa_key.pub); if they are equal: "
            f"ssh-keyscan -t ecdsa -p {jump.port} 127.0.0.1 >> {tmp_path}/.ssh/known_hosts"
        )
    # As many as are read at a time: who is no node has a connection all the same.
    assert jump.most <= 2 + 1


def test_a_connection_ends_with_its_node(tmp_path: Path) -> None:
    with served() as node:
        known_hosts = tmp_path / "known_hosts"
        known = f"[127.0.0.1]:{node.port} {node.key.get_name()} {node.key.get_base64()}\n"
        known_hosts.write_text(known)
        login = {
            "ssh_hostname": "127.0.0.1",
            "ssh_port": node.port,
            "ssh_user": "ops",
            "ssh_password": "any",
            "ssh_strict_host_key_checking": "yes",
            "ssh_known_hosts_file": str(known_hosts),
        }
        reading = read(shared(login), tmp_path)
    assert {type(got) for got in reading.values()} == {Record}
    # One that just ended may not be noticed yet by this side.
    assert node.most <= 2 + 1


def shared(login: dict[str, Any]) -> Share:
    """Six nodes that are reached in the same way, two at a time."""
    names = [f"worker{number}" for number in range(6)]
    requests = dict.fromkeys(names, Request())
    own = {name: (("name", name),) for name in names}
    return Share(requests, dict.fromkeys(names, login), own, at_once=2)


def read(share: Share, home: Path) -> Reading:
    """Read by a process of its own; it ends, well, and by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "lockstep.fleet.shard", "nodes"],
        input=f"{dumps(share)}\n",
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (0, "")
    reading = dict(node_of(line.encode()) for line in done.stdout.splitlines())
    assert reading.keys() == share.requests.keys()
    return reading


def test_what_anything_else_prints_is_no_record() -> None:
    program = """
import os
from lockstep.fleet.read_nodes import _to_standard_output
tell = _to_standard_output()
print("a question", flush=True)
os.write(1, b"another")
tell("worker1", "{}")
"""
    assert said_by(program) == '"worker1":{"record":{}}\n'
