"""What an interface's driver says through the kernel call behind ethtool(8)."""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct

from lockstep.node.readers.reading import NOT_SUPPORTED, Unread

SIOCETHTOOL = 0x8946
GET_DRIVER, GET_RINGS, GET_PAUSE, GET_CHANNELS = 0x03, 0x10, 0x12, 0x3C
OFFLOADS = {"rx": 0x14, "tx": 0x16, "sg": 0x18, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}
"""Commands of the driver interface behind ethtool(8) (linux/ethtool.h); all of them only read."""


def ethtool(interface: str, command: int, size: int) -> bytes:
    """Return the answer of a driver without its first word; nothing where it has none."""
    answer = array.array("B", struct.pack("=I", command) + bytes(size - 4))
    request = struct.pack("16sP16x", interface.encode(), answer.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            fcntl.ioctl(asked, SIOCETHTOOL, request)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                return b""
            raise Unread(f"{interface}: ethtool: {error.strerror}") from None
    return answer.tobytes()[4:]


def words_of(interface: str, command: int, number: int) -> tuple[int, ...]:
    """Return the answer of a driver as numbers; none where it has no answer."""
    answer = ethtool(interface, command, 4 + 4 * number)
    return struct.unpack(f"={number}I", answer) if answer else ()


def driver(interface: str) -> str:
    """Return driver and firmware of an interface."""
    answer = ethtool(interface, GET_DRIVER, 196)
    texts = (answer[start : start + 32].split(b"\0")[0].decode() for start in (0, 64))
    return " ".join(filter(None, texts)) or NOT_SUPPORTED


def rings(interface: str) -> str:
    """Return how many frames wait in each direction."""
    words = words_of(interface, GET_RINGS, 8)
    return f"rx {words[4]}, tx {words[7]}" if words else NOT_SUPPORTED


def channels(interface: str) -> str:
    """Return the number of queues."""
    words = words_of(interface, GET_CHANNELS, 8)
    return f"rx {words[4]}, tx {words[5]}, combined {words[7]}" if words else NOT_SUPPORTED


def pause(interface: str) -> str:
    """Return whether pause frames are sent and obeyed."""
    words = words_of(interface, GET_PAUSE, 3)
    return f"rx {words[1]}, tx {words[2]}" if words else NOT_SUPPORTED


def offloads(interface: str) -> str:
    """Return what the interface does in place of the CPU."""
    asked = {name: words_of(interface, command, 1) for name, command in OFFLOADS.items()}
    return " ".join(f"{name}{'+' if any(words) else '-'}" for name, words in asked.items())
