"""Listeners, network interfaces and default routes."""

from __future__ import annotations

import json
import socket
import struct

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.ethtool import channels, driver, offloads, pause, rings
from lockstep.node.readers.reading import Readings, Request, Unread, one
from lockstep.node.readers.tree import exists, line_of, number_of, text_of

WAITING = {"tcp": "0A", "udp": "07"}
"""State of a socket that waits for anybody (include/net/tcp_states.h); UDP has no other."""


def read_listeners(request: Request, commands: Commands) -> Readings:
    """Addresses that are listened on, for each port asked for: ``tcp/22`` -> addresses."""
    wanted = request["listeners"]
    found: dict[tuple[str, int], set[str]] = {}
    for protocol, state in WAITING.items():
        for table in (protocol, protocol + "6"):
            path = f"/proc/net/{table}"
            if table.endswith("6") and not exists(path):
                continue  # a kernel without IPv6
            for line in text_of(path).splitlines()[1:]:
                words = line.split()
                if len(words) > 3 and words[3] == state:
                    address, _, port = words[1].partition(":")
                    found.setdefault((protocol, int(port, 16)), set()).add(address_of(address))

    def read(name: str) -> list[str]:
        protocol, _, port = name.partition("/")
        return sorted(found.get((protocol, int(port)), ()))

    return {"listeners": {name: read(name) for name in wanted}}


def address_of(text: str) -> str:
    """Return an address as people write it; /proc/net has 32-bit words in the CPU's own order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    family = socket.AF_INET6 if len(words) == 4 else socket.AF_INET
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


NET = "/sys/class/net"
NET_READINGS = (
    *("net.addresses", "net.mac", "net.state", "net.mtu", "net.queue", "net.speed", "net.driver"),
    *(
        "net.rings",
        "net.channels",
        "net.pause",
        "net.offloads",
        "net.errors",
        "net.carrier_changes",
    ),
)


def read_interfaces(request: Request, commands: Commands) -> Readings:
    """Network interfaces that stand for hardware or have an address that others can reach."""
    readings: Readings = {name: {} for name in NET_READINGS}
    for shown in json.loads(commands.run("ip", "-j", "address")):
        name = shown["ifname"]
        reached = [row["local"] for row in shown["addr_info"] if row.get("scope") == "global"]
        device = exists(f"{NET}/{name}/device")
        if name == "lo" or not (device or reached):
            continue
        readings["net.addresses"][name] = sorted(reached)
        readings["net.mac"][name] = shown.get("address", "")
        readings["net.state"][name] = shown["operstate"]
        readings["net.mtu"][name] = shown["mtu"]
        readings["net.queue"][name] = f"{shown['qdisc']}, {shown.get('txqlen', 0)} packets"
        for reading, reader in (
            ("net.speed", speed),
            ("net.driver", driver),
            ("net.rings", rings),
            ("net.channels", channels),
            ("net.pause", pause),
            ("net.offloads", offloads),
            ("net.errors", net_errors),
            ("net.carrier_changes", lambda name: number_of(f"{NET}/{name}/carrier_changes")),
        ):
            readings[reading][name] = one(reader, name)
    return readings


def read_default_routes(request: Request, commands: Commands) -> Readings:
    """Interfaces that packets to everywhere else leave by, for each family."""
    ways: dict[str, set[str]] = {"ipv4": set(), "ipv6": set()}
    for line in text_of("/proc/net/route").splitlines()[1:]:
        name, target, mask = (line.split("\t")[column] for column in (0, 1, 7))
        if int(target, 16) == int(mask, 16) == 0:
            ways["ipv4"].add(name)
    # A kernel without IPv6 has no such file; "lo" stands for what cannot be reached.
    table = "/proc/net/ipv6_route"
    for line in text_of(table).splitlines() if exists(table) else ():
        words = line.split()
        if int(words[0], 16) == int(words[1], 16) == 0 and words[-1] != "lo":
            ways["ipv6"].add(words[-1])
    return {"net.default_route": {family: sorted(names) for family, names in ways.items()}}


def speed(interface: str) -> str:
    """Return speed and duplex; "unknown" where the link is down or only stands for hardware."""
    try:
        rate = number_of(f"{NET}/{interface}/speed")
        return f"{rate} Mb/s {line_of(f'{NET}/{interface}/duplex')}" if rate > 0 else "unknown"
    except Unread:
        return "unknown"


def net_errors(interface: str) -> int:
    """Return frames that were lost to errors, in both directions."""
    top = f"{NET}/{interface}/statistics"
    return number_of(f"{top}/rx_errors") + number_of(f"{top}/tx_errors")
