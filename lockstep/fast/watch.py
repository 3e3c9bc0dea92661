"""Time limits for what a node answers, and a watch over its connection.

Only time in which this process could listen counts. While it computes (fifty hosts prepare, rules
are imported) answers wait in its sockets: a plain time-out would then give up healthy nodes.
"""

from __future__ import annotations

import math
from typing import Any

import gevent
from paramiko import SSHException, Transport

TICK_S = 1.0
"""A wait is made of these. One that took longer, because this process computed, counts once."""
EVERY_S = 15.0
"""How often a node is asked for a sign of life, and how long it has to give one."""
MOST = 3
"""So many requests without an answer end the connection."""
REQUEST = "keepalive@openssh.com"
"""A global request (RFC 4254, 4). sshd refuses it, which is an answer; paramiko's own keepalive
wants none and so sees nothing."""


def arrives(awaited: Any, within_s: float) -> bool:
    """Wait for a gevent event or greenlet; say whether it came in the time that counts."""
    tick = min(TICK_S, within_s)
    # One more: what arrived during the last one may not have been looked at yet.
    return any(gevent.wait([awaited], timeout=tick) for _ in range(math.ceil(within_s / tick) + 1))


class Watch:
    """Closes the connection to a node without a sign of life; what waits for it then ends."""

    def __init__(self, transport: Transport) -> None:
        """Watch a connection until it ends.

        Args:
            transport: of the connection.
        """
        self.lost = ""
        """Why the connection was given up; "": it was not."""
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
                self.lost = f"no answer to {MOST} requests, one every {EVERY_S:g} s"
                self._transport.close()

    def _ask(self) -> None:
        try:
            self._transport.global_request(REQUEST, wait=True)
        except (OSError, EOFError, SSHException):
            return  # the connection has ended: its users get an error
