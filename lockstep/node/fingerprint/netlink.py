"""Asks the kernel whether it has objects of a kind, before a program is run to show them."""

from __future__ import annotations

import socket
import struct

from lockstep.node.readers.tree import exists, rows_of

ROUTE, NETFILTER, XFRM = 0, 12, 6
"""Protocols of linux/netlink.h."""
GET_TABLES, GET_STATES, GET_POLICIES = 10 << 8 | 1, 0x12, 0x15
"""NFT_MSG_GETTABLE, XFRM_MSG_GETSA, XFRM_MSG_GETPOLICY."""
GET_LINKS, IFNAME, LINK_NETNSID = 0x12, 3, 37
"""RTM_GETLINK, and two attributes of its answers (rtnetlink(7), linux/if_link.h)."""
ABOUT_LINK = 16
"""Bytes of ifinfomsg, which is before the attributes."""
REQUEST, DONE, ERROR = 0x301, 3, 2
"""NLM_F_REQUEST and NLM_F_DUMP, NLMSG_DONE, NLMSG_ERROR."""


def present(protocol: int) -> bool:
    """Return whether the kernel has a netlink protocol already.

    A socket of one without its module would load the module; the kernel's own sockets are listed
    with port 0 (net/netlink/af_netlink.c).
    """
    rows = rows_of("/proc/net/netlink", after=1) if exists("/proc/net/netlink") else []
    return any(row[1:3] == [str(protocol), "0"] for row in rows)


def dump(protocol: int, kind: int, head: bytes = b"") -> list[bytes] | None:
    """Return the messages that the kernel sends, without their headers (netlink(7)).

    None if the kernel does not say.
    """
    found: list[bytes] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as asked:
            asked.settimeout(1)
            asked.send(struct.pack("=IHHII", 16 + len(head), kind, REQUEST, 1, 0) + head)
            while True:
                data = asked.recv(1 << 17)
                while len(data) >= 16:
                    size, answer = struct.unpack_from("=IH", data)
                    if answer == DONE:
                        return found
                    if answer == ERROR or size < 16:
                        return None
                    found.append(data[16:size])
                    data = data[(size + 3) & ~3 :]
    except OSError:
        return None


def linked_elsewhere() -> set[str]:
    """Return the interfaces whose other end is in another network namespace."""
    found: set[str] = set()
    for message in dump(ROUTE, GET_LINKS, bytes(ABOUT_LINK)) or ():
        attributes: dict[int, bytes] = {}
        at = ABOUT_LINK
        while at + 4 <= len(message):
            size, kind = struct.unpack_from("=HH", message, at)
            if size < 4:
                break
            attributes[kind & 0x3FFF] = message[at + 4 : at + size]
            at += (size + 3) & ~3
        if LINK_NETNSID in attributes:
            found.add(attributes.get(IFNAME, b"").rstrip(b"\0").decode())
    return found
