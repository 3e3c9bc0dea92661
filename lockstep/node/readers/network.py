"""Listeners, default routes, and network interfaces with the settings that ethtool(8) shows."""

from __future__ import annotations

import array
import errno
import fcntl
import json
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import NOT_SUPPORTED, Readings, Request, Unread, each
from lockstep.node.readers.tree import exists, line_of, number_of, rows_of

WAITING = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
"""File in /proc/net -> state of a listening socket (include/net/tcp_states.h). UDP sockets do not
listen; in state 07 they have no peer and accept packets from any address."""


def read_listeners(request: Request, commands: Commands) -> Readings:
    """Local addresses with a listening socket, for each requested port such as ``tcp/22``."""
    found: dict[str, set[str]] = {}
    for table, state in WAITING.items():
        path = f"/proc/net/{table}"
        if table.endswith("6") and not exists(path):
            continue  # a kernel without IPv6
        for words in rows_of(path, after=1):
            if len(words) > 3 and words[3] == state:
                address, _, port = words[1].partition(":")
                found.setdefault(f"{table[:3]}/{int(port, 16)}", set()).add(address_of(address))
    return {"listeners": {name: sorted(found.get(name, ())) for name in request["listeners"]}}


def address_of(text: str) -> str:
    """Return an address from /proc/net (32-bit words in host byte order) in its usual notation."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    family = socket.AF_INET6 if len(words) == 4 else socket.AF_INET
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


NET = "/sys/class/net"


def read_default_routes(request: Request, commands: Commands) -> Readings:
    """Interfaces with a default route, for IPv4 and IPv6."""
    ipv4, ipv6 = "/proc/net/route", "/proc/net/ipv6_route"
    # A kernel without IPv6 has no such file. Routes through "lo" mean "unreachable".
    rows = rows_of(ipv6) if exists(ipv6) else []
    # The destination and the mask (IPv6: prefix length) of a default route are zero.
    routes = {
        "ipv4": {row[0] for row in rows_of(ipv4, after=1) if int(row[1] + row[7], 16) == 0},
        "ipv6": {row[-1] for row in rows if int(row[0] + row[1], 16) == 0} - {"lo"},
    }
    return {"net.default_route": {family: sorted(names) for family, names in routes.items()}}


def read_gateways(request: Request, commands: Commands) -> Readings:
    """Interface -> the routers of its default routes, for each requested family.

    Only the routes in the main table with the best metric, which are those that the kernel uses.
    """
    return {"net.gateway": each(request["gateways"], lambda family: _gateways(family, commands))}


def _gateways(family: str, commands: Commands) -> dict[str, list[str]]:
    option = {"ipv4": "-4", "ipv6": "-6"}[family]
    shown = json.loads(commands.run("ip", "-j", option, "route", "show", "default") or "[]")
    # A route that is not unicast has a type, such as "unreachable".
    routes = [row for row in shown if row.get("type", "unicast") == "unicast"]
    best = min((row.get("metric", 0) for row in routes), default=0)
    found: dict[str, set[str]] = {}
    for row in routes:
        if row.get("metric", 0) == best:
            for hop in row.get("nexthops", [row]):
                # "via" is a router of another family (ip-route(8)).
                router = hop.get("gateway") or hop.get("via", {}).get("host")
                found.setdefault(hop["dev"], set()).update([router] if router else [])
    return {name: sorted(routers) for name, routers in found.items()}


def speed(interface: str) -> str:
    """Return a link's speed and duplex mode; "unknown" if it is down or reports no speed."""
    try:
        rate = number_of(f"{NET}/{interface}/speed")
        return f"{rate} Mb/s {line_of(f'{NET}/{interface}/duplex')}" if rate > 0 else "unknown"
    except Unread:
        return "unknown"


def net_errors(interface: str) -> int:
    """Return the number of receive and transmit errors on an interface."""
    return sum(number_of(f"{NET}/{interface}/statistics/{way}_errors") for way in ("rx", "tx"))


SIOCETHTOOL = 0x8946
GET_DRIVER, GET_RINGS, GET_PAUSE, GET_CHANNELS = 0x03, 0x10, 0x12, 0x3C
GET_PERMANENT_ADDRESS = 0x20
OFFLOADS = {"rx": 0x14, "tx": 0x16, "sg": 0x18, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}
"""Commands of the ethtool ioctl (linux/ethtool.h); none of them changes a setting."""


def ethtool(interface: str, command: int, size: int, head: bytes = b"") -> bytes:
    """Return a driver's reply to an ethtool command; empty if the driver does not support it.

    The first word of the reply, which repeats the command, is left out.

    Args:
        interface: name of the interface.
        command: the command.
        size: bytes of the whole reply.
        head: what follows the command in the request; the rest is zeros.
    """
    data = struct.pack("=I", command) + head
    answer = array.array("B", data.ljust(size, b"\0"))
    request = struct.pack("16sP16x", interface.encode(), answer.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            fcntl.ioctl(asked, SIOCETHTOOL, request)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                return b""
            raise Unread(f"{interface}: the ethtool ioctl failed: {error.strerror}") from None
    return answer.tobytes()[4:]


def words_of(interface: str, command: int, number: int) -> tuple[int, ...]:
    """Return a driver's reply as 32-bit numbers; empty if it does not support the command."""
    answer = ethtool(interface, command, 4 + 4 * number)
    return struct.unpack(f"={number}I", answer) if answer else ()


def driver(interface: str) -> str:
    """Return the name of an interface's driver, and the firmware version."""
    answer = ethtool(interface, GET_DRIVER, 196)
    texts = (answer[start : start + 32].split(b"\0")[0].decode() for start in (0, 64))
    return " ".join(filter(None, texts)) or NOT_SUPPORTED


SETTINGS = {
    # reading -> command, number of words in the reply, format of the value
    "net.rings": (GET_RINGS, 8, "rx {4}, tx {7}"),
    "net.channels": (GET_CHANNELS, 8, "rx {4}, tx {5}, combined {7}"),
    "net.pause": (GET_PAUSE, 3, "rx {1}, tx {2}"),
}


def setting(reading: str, interface: str) -> str:
    """Return a reading of ``SETTINGS``: ring sizes, numbers of channels, or pause frames."""
    command, number, shown = SETTINGS[reading]
    words = words_of(interface, command, number)
    return shown.format(*words) if words else NOT_SUPPORTED


def offloads(interface: str) -> str:
    """Return each offload with "+" if it is on, or "-" if it is off or not supported."""
    asked = {name: words_of(interface, command, 1) for name, command in OFFLOADS.items()}
    return " ".join(f"{name}{'+' if any(words) else '-'}" for name, words in asked.items())


OF_INTERFACE: dict[str, Callable[[str], Any]] = {
    "net.speed": speed,
    "net.driver": driver,
    **{reading: partial(setting, reading) for reading in SETTINGS},
    "net.offloads": offloads,
    "net.errors": net_errors,
    "net.carrier_changes": lambda name: number_of(f"{NET}/{name}/carrier_changes"),
}
NET_READINGS = (
    *("net.addresses", "net.mac", "net.state", "net.mtu", "net.queue"),
    *OF_INTERFACE,
)


def read_interfaces(request: Request, commands: Commands) -> Readings:
    """Network interfaces with a hardware device or an address of global scope."""
    rows = {row["ifname"]: row for row in json.loads(commands.run("ip", "-j", "address"))}
    reached = {
        name: sorted(one["local"] for one in row["addr_info"] if one.get("scope") == "global")
        for name, row in rows.items()
    }
    shown = {
        name: row
        for name, row in rows.items()
        if name != "lo" and (reached[name] or exists(f"{NET}/{name}/device"))
    }
    return {
        "net.addresses": {name: reached[name] for name in shown},
        "net.mac": {name: row.get("address", "") for name, row in shown.items()},
        "net.state": {name: row["operstate"] for name, row in shown.items()},
        "net.mtu": {name: row["mtu"] for name, row in shown.items()},
        "net.queue": {
            name: f"{row['qdisc']}, {row.get('txqlen', 0)} packets" for name, row in shown.items()
        },
        **{reading: each(shown, read) for reading, read in OF_INTERFACE.items()},
    }
