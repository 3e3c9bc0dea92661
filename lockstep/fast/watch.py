"""Time limits for a node's answers, and a watch on its connection.

Time during which this process could not listen does not count. While it is busy (preparing fifty
hosts, importing modules), answers wait in its sockets, so a plain timeout would drop healthy nodes.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import gevent
from paramiko import Channel, SSHException, Transport

TICK_S = 1.0
"""Length of a tick, in seconds. Waits are counted in ticks, and a tick that takes longer because
this process is busy still counts as one."""
EVERY_S = 15.0
"""Seconds between keepalive requests; a node has to answer each within this time."""
MOST = 3
"""Number of successive unanswered requests after which the connection is closed."""
REQUEST = "keepalive@openssh.com"
"""A global request (RFC 4254, section 4). sshd rejects it, which shows that the node is alive.
paramiko's own keepalive asks for no answer, so it cannot detect a dead node."""


def arrives(awaited: Any, within_s: float) -> bool:
    """Wait for a gevent event or greenlet, in ticks; return whether it was ready in time."""
    tick = min(TICK_S, within_s)
    # One more tick, because what arrived during the last one may not be handled yet.
    return any(gevent.wait([awaited], timeout=tick) for _ in range(math.ceil(within_s / tick) + 1))


def close_unless(ended: Any, within_s: float, channel: Channel) -> bool:
    """Close a session if its command does not end in time; return whether it was closed."""
    late = not arrives(ended, within_s)
    if late:
        close(channel)
    return late


def close(channel: Channel) -> None:
    """Close a session, even if its connection has ended."""
    with suppress(OSError, EOFError, SSHException):
        channel.close()


class Watch:
    """Closes the connection to a node that stops answering, so that nothing waits for the node."""

    def __init__(self, transport: Transport) -> None:
        """Watch a connection until it ends.

        Args:
            transport: the transport of the connection.
        """
        self.lost = ""
        """The reason why the watch closed the connection; "" if it did not."""
        self._transport = transport
        gevent.spawn(self._look)

    def _look(self) -> None:
        unanswered = 0
        gevent.sleep(EVERY_S)
        while self._transport.is_active():
            asking = gevent.spawn(self._ask)
            if not arrives(asking, EVERY_S):
                unanswered += 1
            else:
                unanswered = 0
                gevent.sleep(EVERY_S)
            if unanswered == MOST:
                self.lost = f"no answer to {MOST} keepalive requests, one every {EVERY_S:g} s"
                self._transport.close()

    def _ask(self) -> None:
        # If the connection has ended, its users get the error.
        with suppress(OSError, EOFError, SSHException):
            self._transport.global_request(REQUEST, wait=True)
