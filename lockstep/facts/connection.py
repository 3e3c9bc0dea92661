"""The end of a connection: pyinfra leaves it open, with those it goes through, for its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paramiko import Channel

if TYPE_CHECKING:
    from pyinfra.api.host import Host


def close(host: Host) -> None:
    """Close a host's ssh connection, where there is one, and those to its jump hosts."""
    client = getattr(host.connector, "client", None)
    transport = None if client is None else client.get_transport()
    if client is not None:
        client.close()
    while transport is not None:
        # Over a jump host the socket is a channel of the connection to that.
        through = transport.sock
        transport.close()
        transport = through.transport if isinstance(through, Channel) else None
