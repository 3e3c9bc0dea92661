"""Which network interfaces are configuration, which come and go with containers, and queues."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

from lockstep.node.fingerprint.entry import Fields
from lockstep.node.fingerprint.netlink import linked_elsewhere
from lockstep.node.fingerprint.sysfs import names_in, value_of
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import found_by, rows_of, text_of

NO_MAC = "00:00:00:00:00:00"
NET = "/sys/class/net"
OF_CONTAINERS = re.compile(r"(?:veth|cali|lxc|eni|azv|nodelocal)[0-9a-f]+|lxc_health|podman\d+-\w+")
"""Names that Docker, Podman, Calico, Cilium and the AWS and Azure plug-ins give to the end of a
pair whose other end is in a container."""
ON_DEMAND = re.compile(r"(?:cni-)?podman\d+")
"""Bridges that Podman makes with the first container and removes with the last
(podman-network(1)); Docker's are there as long as Docker runs."""


def without_containers(names: Iterable[str]) -> list[str]:
    """Return the interfaces that do not belong to a container.

    Those of containers have a generated name, and their peer is in another network namespace. The
    peer's index (Documentation/ABI/testing/sysfs-class-net, iflink) can be that of an interface of
    this one, but then that interface has another peer, or the kernel says that the peer is
    elsewhere. An operator's own pair stays.
    """
    names = sorted(name for name in names if not ON_DEMAND.fullmatch(name))
    suspects = {name for name in names if OF_CONTAINERS.fullmatch(name)}
    if not suspects:
        return names
    pairs = {
        (value_of(f"{NET}/{name}/ifindex"), value_of(f"{NET}/{name}/iflink"))
        for name in names_in(NET)
    }
    gone = {
        name
        for name in suspects
        if (value_of(f"{NET}/{name}/iflink"), value_of(f"{NET}/{name}/ifindex")) not in pairs
    }
    if suspects - gone:
        gone |= suspects & linked_elsewhere()
    return [name for name in names if name not in gone]


def permanent_addresses() -> dict[str, str]:
    """Return the MAC address that each port of a bond had before (bonding, proc_net_bonding).

    All ports of a bond have one MAC address, and files for udev(7) have the permanent ones. From
    which port the bond has its address depends on which one came first.
    """
    found: dict[str, str] = {}
    port = ""
    for path in found_by("/proc/net/bonding/*"):
        with suppress(Unread):
            for line in text_of(path).splitlines():
                key, _, value = line.partition(": ")
                if key == "Slave Interface":
                    port = value.strip()
                elif key == "Permanent HW addr" and value.strip() != NO_MAC:
                    found[port] = value.strip()
    return found


OF_DOCKER = re.compile(r"br-[0-9a-f]{12}")
"""Name that Docker gives to the bridge of a network: the beginning of the network's random ID."""


def called(names: Iterable[str]) -> dict[str, str]:
    """Return the names of interfaces on all equal nodes, where they are not the names here.

    A bridge of Docker is told by its network, which /proc/net/route has in hexadecimal, the first
    byte last (proc_pid_net_route(5)).
    """
    bridges = {name for name in names if OF_DOCKER.fullmatch(name)}
    found: dict[str, str] = {}
    for words in rows_of("/proc/net/route", after=1) if bridges else ():
        if words[0] in bridges and words[1] != "00000000":
            address = ".".join(str(byte) for byte in bytes.fromhex(words[1])[::-1])
            bits = bin(int(words[7], 16)).count("1")
            found.setdefault(words[0], f"bridge of the network {address}/{bits}")
    return found


def interface_identifier(mac: str) -> bytes:
    """Return how an IPv6 address ends that is made of a MAC address (RFC 4291, appendix A).

    Empty if it is no MAC address of six bytes.
    """
    parts = mac.split(":")
    if len(parts) != 6:
        return b""
    first, *others = (int(part, 16) for part in parts)
    return bytes([first ^ 2, *others[:2], 0xFF, 0xFE, *others[2:]])


OF_AN_INTERFACE = ("gro_flush_timeout", "napi_defer_hard_irqs", "threaded", "proto_down", "mode")
OF_A_QUEUE = (
    ("rx-", "rps_cpus", ("rps_flow_cnt",)),
    ("tx-", "xps_cpus", ("xps_rxqs", "tx_maxrate")),
)
"""Files in the folder of an interface, and in those of its receive and transmit queues
(Documentation/networking/scaling.rst): one that is read of each queue, and those that are read of
the first, because a node may have a thousand queues."""


def queues_of(name: str) -> Fields:
    """Return how the queues of an interface are spread over CPUs, and when they are served."""
    fields: Fields = {}
    for file in OF_AN_INTERFACE:
        value = value_of(f"{NET}/{name}/{file}")
        if value is not None:
            fields[file] = value
    queues = names_in(f"{NET}/{name}/queues")
    for way, file, others in OF_A_QUEUE:
        these = [queue for queue in queues if queue.startswith(way)]
        values = {queue: value_of(f"{NET}/{name}/queues/{queue}/{file}") for queue in these}
        known = {queue: value for queue, value in values.items() if value is not None}
        if len(set(known.values())) == 1:
            fields[file] = next(iter(known.values()))
        elif known:
            fields[file] = ", ".join(f"{queue} {value}" for queue, value in known.items())
        for other in others:
            value = value_of(f"{NET}/{name}/queues/{these[0]}/{other}") if these else None
            if value is not None:
                fields[other] = value
    return fields
