"""ssh connections that do not wait for acknowledgements."""

from __future__ import annotations

import socket
from typing import Any

from paramiko import Channel, Transport

CIPHER = "aes128-gcm@openssh.com"
"""Preferred: of the others paramiko compares each packet's hash in Python, byte by byte."""


def prompt(sock: Any, **arguments: Any) -> Transport:
    """Return paramiko's transport over a socket that sends at once.

    An execution is several small packets. With Nagle's algorithm on, one of them waits until the
    other side acknowledges the one before, which that side delays: 40 ms each time.
    """
    below = sock
    while isinstance(below, Channel):  # of the connection to a jump host
        below = below.get_transport().sock
    if isinstance(below, socket.socket):  # a ProxyCommand has pipes
        below.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport = Transport(sock, **arguments)
    options = transport.get_security_options()
    if CIPHER in options.ciphers:  # not every paramiko and its cryptography have it
        options.ciphers = (CIPHER, *(cipher for cipher in options.ciphers if cipher != CIPHER))
    return transport
