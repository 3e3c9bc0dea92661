"""Closes the ssh connections that pyinfra leaves open, to nodes and to their jump hosts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from paramiko import Channel, SSHException, Transport

if TYPE_CHECKING:
    from pyinfra.api.host import Host

ENDED = (OSError, EOFError, SSHException)
"""Errors when closing a connection that is already gone, such as after its ProxyCommand exited."""


def close(host: Host) -> None:
    """Close a host's ssh connection, if there is one, and the connections to its jump hosts."""
    connected = getattr(host.connector, "client", None)
    if connected is not None:
        transport = connected.get_transport()
        with suppress(*ENDED):
            connected.close()
        end(transport)


def is_lost(host: Host) -> bool:
    """Return whether a host had an ssh connection that has ended."""
    connected = getattr(host.connector, "client", None)
    transport = None if connected is None else connected.get_transport()
    return connected is not None and (transport is None or not transport.is_active())


def end(transport: Transport | None) -> None:
    """Close a connection, if there is one, and the connections to its jump hosts."""
    while transport is not None:
        # With a jump host, the socket is a channel of the connection to that host.
        through = transport.sock
        with suppress(*ENDED):
            transport.close()
        transport = through.transport if isinstance(through, Channel) else None
