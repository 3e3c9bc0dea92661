"""The end of a connection: pyinfra leaves it open, with those it goes through, for its process."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from paramiko import Channel, SSHException, Transport

if TYPE_CHECKING:
    from pyinfra.api.host import Host

ENDED = (OSError, EOFError, SSHException)
"""What closing says of something that has ended by itself: a ProxyCommand's process."""


def close(host: Host) -> None:
    """Close a host's ssh connection, where there is one, and those to its jump hosts."""
    connected = getattr(host.connector, "client", None)
    if connected is not None:
        transport = connected.get_transport()
        with suppress(*ENDED):
            connected.close()
        end(transport)


def end(transport: Transport | None) -> None:
    """Close a connection, where there is one, and those that it goes through."""
    while transport is not None:
        # Over a jump host the socket is a channel of the connection to that.
        through = transport.sock
        with suppress(*ENDED):
            transport.close()
        transport = through.transport if isinstance(through, Channel) else None
