"""Connections send at once, also through a jump host."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from paramiko import Channel, ProxyCommand, Transport
from typing_extensions import override

from lockstep.fast import transport


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
