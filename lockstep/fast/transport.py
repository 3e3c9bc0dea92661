"""ssh connections that wait for the other side as seldom as they can."""

from __future__ import annotations

import socket
import threading
from functools import cache
from types import ModuleType
from typing import Any

import paramiko.transport
from gevent import Greenlet, spawn
from paramiko import Channel, SSHException, Transport
from typing_extensions import override

CIPHER = "aes128-gcm@openssh.com"
"""Preferred: of the others paramiko compares each packet's hash in Python, byte by byte."""
POLLS_S = 0.1
"""How long paramiko waits before it looks again: where 50 nodes take 15 s to answer, these are
7,500 awakenings, a fifth of a check's CPU; waiting for sessions is a sixth of its reader's."""
LOOKS_EVERY_S = 5.0
"""Instead, a connection that waits: whether its keys are old. What arrives or ends wakes it."""
ASKS_EVERY_S = 2.0
"""Instead, who waits for a login or a session: whether we closed the connection ourselves, and
whether the time is over, which is therefore noticed so much later. What arrives, and an end by the
other side, wakes him at once."""


class Event(threading.Event):
    """Is waited for, where paramiko's own is asked ten times a second."""

    @override
    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(ASKS_EVERY_S if timeout == POLLS_S else timeout)


class _Threading(ModuleType):
    """``threading``, as paramiko's transport sees it."""

    Event = Event

    @override
    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


@cache
def _waited_for() -> None:
    """Wait for login, session and key exchange. Only where connections are made in this way."""
    ours = _Threading("threading")
    setattr(paramiko.transport, "threading", ours)  # noqa: B010  # a name that it only imported


class OpensAhead(Transport):
    """Opens the session of the next execution while this one runs: a round trip less for each.

    From the second one on: where a rerun has nothing to do there is only one.
    """

    _used = False
    _next: Greenlet[Any, Channel | None] | None = None
    _allowed = True

    @override
    def open_session(
        self,
        window_size: int | None = None,
        max_packet_size: int | None = None,
        timeout: float | None = None,
    ) -> Channel:
        opening, self._next = self._next, None
        channel = None if opening is None else opening.get()
        if channel is None or channel.closed:
            channel = super().open_session(window_size, max_packet_size, timeout)
        if self._used and self._allowed:
            self._next = spawn(self._ahead)
        self._used = True
        return channel

    def _ahead(self) -> Channel | None:
        try:
            return super().open_session()
        except (SSHException, EOFError, OSError):
            # sshd has enough with one session (MaxSessions), or the connection is at its end.
            self._allowed = False
            return None


def prompt(sock: Any, **arguments: Any) -> Transport:
    """Return paramiko's transport over a socket that sends at once.

    An execution is several small packets. With Nagle's algorithm on, one of them waits until the
    other side acknowledges the one before, which that side delays: 40 ms each time.
    """
    _waited_for()
    below = sock
    while isinstance(below, Channel):  # of the connection to a jump host
        below = below.get_transport().sock
    if isinstance(below, socket.socket):  # a ProxyCommand has pipes
        below.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport = OpensAhead(sock, **arguments)
    if isinstance(sock, socket.socket):
        # What arrives, an end and a close are noticed at once, whatever this is.
        sock.settimeout(LOOKS_EVERY_S)
    options = transport.get_security_options()
    if CIPHER in options.ciphers:  # not every paramiko and its cryptography have it
        options.ciphers = (CIPHER, *(cipher for cipher in options.ciphers if cipher != CIPHER))
    return transport
