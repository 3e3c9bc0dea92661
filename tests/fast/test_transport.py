"""Connections send at once, also through a jump host, and open sessions ahead of time."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import gevent
import pytest
from paramiko import Channel, ECDSAKey, ProxyCommand, ServerInterface, SSHException, Transport
from paramiko.common import (
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)
from typing_extensions import override

from lockstep.fast import transport
from tests.fast.runs import ROOT


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here are threads: unlike a greenlet none is woken when its socket is closed."""
    monkeypatch.setattr(transport, "WAKES_EVERY_S", 0.1)


@pytest.fixture
def connected() -> Iterator[socket.socket]:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as server,
        closing(socket.create_connection(server.getsockname()[:2])) as sock,
    ):
        yield sock


def sends_at_once(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def test_a_connection_sends_at_once(connected: socket.socket) -> None:
    assert not sends_at_once(connected)
    assert transport.prompt(connected, gss_kex=False).sock is connected
    assert sends_at_once(connected)


def test_so_does_the_connection_to_a_jump_host(connected: socket.socket) -> None:
    channel = Channel(1)
    channel.transport = Transport(connected)
    transport.prompt(channel)
    assert sends_at_once(connected)


@pytest.mark.parametrize("known", [True, False])
def test_a_cipher_is_preferred_where_there_is_one(
    connected: socket.socket, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    paramiko: Any = Transport  # what it has is in private names
    others = tuple(name for name in paramiko._preferred_ciphers if name != transport.CIPHER)
    ours = (transport.CIPHER,) if known else ()
    monkeypatch.setattr(Transport, "_preferred_ciphers", (*others, *ours))
    if not known:
        infos = {name: paramiko._cipher_info[name] for name in others}
        monkeypatch.setattr(Transport, "_cipher_info", infos)
    options = transport.prompt(connected).get_security_options()
    assert tuple(options.ciphers) == (*ours, *others)


class Pipes(ProxyCommand):
    """What paramiko has instead of a socket, without its process."""

    def __init__(self) -> None:
        pass

    @override
    def settimeout(self, timeout: float) -> None:
        pass


def test_a_proxy_command_is_left_as_it_is() -> None:
    transport.prompt(Pipes())


class Sessions(ServerInterface):
    """A server that counts sessions, and refuses those that are too many."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked: list[int] = []
        self.ran: list[str] = []
        self.transport: Transport | None = None

    def open(self) -> int:
        assert self.transport is not None
        channels: Any = self.transport  # they are in a private name
        return sum(not channel.closed for channel in channels._channels.values())

    @override
    def check_auth_none(self, username: str) -> int:
        return int(AUTH_SUCCESSFUL)

    @override
    def check_channel_request(self, kind: str, chanid: int) -> int:
        self.asked.append(chanid)
        if self.open() >= self.most:
            return int(OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED)
        return int(OPEN_SUCCEEDED)

    @override
    def check_channel_exec_request(self, channel: Channel, command: bytes) -> bool:
        self.ran.append(command.decode())
        # Behind the reply to this request, which is sent when this returns.
        threading.Timer(0.1, self.answer, [channel]).start()
        return True

    def answer(self, channel: Channel) -> None:
        with suppress(EOFError, OSError, SSHException):  # it has all it wanted, and is gone
            channel.sendall(b"done")
            channel.send_exit_status(0)
            channel.close()


@contextmanager
def served(most: int) -> Iterator[tuple[Sessions, Transport]]:
    """A connection of ours to such a server."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listening:
        here = socket.create_connection(listening.getsockname()[:2])
        there, _ = listening.accept()
    server = Sessions(most)
    server.transport = Transport(there)
    server.transport.add_server_key(ECDSAKey.generate())
    server.transport.start_server(event=threading.Event(), server=server)
    client = transport.prompt(here)
    try:
        client.start_client(timeout=20)
        client.auth_none("user")
        yield server, client
    finally:
        for side, sock in ((client, here), (server.transport, there)):
            side.close()
            side.join(20)
            sock.close()


def execute(client: Transport, command: str) -> bytes:
    channel = client.open_session()
    channel.exec_command(command)
    gevent.sleep(0.05)  # greenlets run while a command does
    said = channel.makefile().read()
    assert channel.recv_exit_status() == 0
    channel.close()
    return bytes(said)


def test_the_next_session_is_opened_ahead_from_the_second_on() -> None:
    with served(most=10) as (server, client):
        opened = []
        for number in range(4):
            assert execute(client, str(number)) == b"done"
            opened.append(len(server.asked))
    assert server.ran == ["0", "1", "2", "3"]
    assert opened == [1, 3, 4, 5], "one execution needs one session; then there is one ahead"


def test_a_server_that_allows_one_session_is_asked_ahead_once() -> None:
    with served(most=1) as (server, client):
        for number in range(4):
            assert execute(client, str(number)) == b"done"
    assert server.ran == ["0", "1", "2", "3"]
    assert len(server.asked) == 5


def test_a_session_that_is_gone_meanwhile_is_opened_again() -> None:
    with served(most=10) as (server, client):
        execute(client, "0")
        execute(client, "1")
        assert server.transport is not None
        channels: Any = server.transport
        for channel in list(channels._channels.values()):
            channel.close()
        gevent.sleep(0.2)
        assert execute(client, "2") == b"done"


def test_a_connection_that_is_gone_is_said_at_once() -> None:
    with served(most=10) as (_, client):
        execute(client, "0")
        execute(client, "1")
        client.close()
        with pytest.raises(SSHException):
            execute(client, "2")


def said_by(program: str) -> str:
    """In a process of its own, which gevent may patch."""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


AT_ONCE = """
from gevent import monkey
monkey.patch_all()  # as pyinfra does
import time
from lockstep.fast import transport
from tests.fast.test_transport import execute, served

transport.WAKES_EVERY_S = 600.0
for end in ("ours", "theirs"):
    with served(most=10) as (server, client):
        assert client.sock.gettimeout() == 600.0
        began = time.monotonic()
        execute(client, "0")
        (client if end == "ours" else server.transport).close()
        client.join(60)
        assert not client.is_alive()
        print(time.monotonic() - began)
"""


def test_what_arrives_and_the_end_of_a_connection_are_noticed_at_once() -> None:
    """However seldom a connection that waits looks by itself."""
    took = said_by(AT_ONCE).split()
    assert all(float(seconds) < 10 for seconds in took)
    assert len(took) == 2
