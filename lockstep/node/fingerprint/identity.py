"""The identities that a node reads from itself: hardware and installation, never its settings."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress

from lockstep.node.fingerprint.disks import Disks, escaped
from lockstep.node.fingerprint.installed import fabric, installation, pci_addresses
from lockstep.node.fingerprint.interfaces import (
    NO_MAC,
    called,
    interface_identifier,
    permanent_addresses,
)
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import below, bytes_of, found_by, line_of, text_of

MUNGE_KEY = "/etc/munge/munge.key"
OLDER_CONNECTIONS = "/etc/sysconfig/network-scripts"


def key(cluster: str) -> bytes:
    """Return the key for secret values: a hash of munge's key, or else of the cluster's name.

    Only root reads munge's key, and all nodes of a cluster have the same. It appears nowhere.
    """
    try:
        shared = bytes_of(MUNGE_KEY)
    except Unread:
        shared = cluster.encode()
    return hashlib.blake2b(shared, digest_size=32, person=b"fingerprint").digest()


def identities() -> dict[str, list[str]]:
    """Return the identities of this machine: what a value is -> the values."""
    found = {
        "machine ID": _lines("/etc/machine-id"),
        "boot ID": _lines("/proc/sys/kernel/random/boot_id"),
        "serial number": _lines(
            *(f"/sys/class/dmi/id/{part}_{kind}" for part in ("product", "board", "chassis")
              for kind in ("serial", "asset_tag")),
        ),
        "UUID": _lines("/sys/class/dmi/id/product_uuid"),
    }  # fmt: skip
    # Identities that are the same on many machines ("Not Specified") identify none.
    found = {
        kind: [v for v in values if len(v) >= 8 and " " not in v] for kind, values in found.items()
    }
    boot = found["boot ID"]
    found["boot ID"] = [*boot, *(value.replace("-", "") for value in boot)]
    interfaces = below("/sys/class/net")
    renamed = called(interfaces)
    found.update({kind: [name] for name, kind in renamed.items()})
    permanent = permanent_addresses()
    of_ports = set(permanent.values())
    capitals = any(map(below, ("/etc/NetworkManager/system-connections", OLDER_CONNECTIONS)))
    for interface in interfaces:
        # All ports of a bond, the bond, and what is above it have the address of one port.
        current = _lines(f"/sys/class/net/{interface}/address")
        address = [a for a in current if a != NO_MAC and a not in of_ports]
        if interface in permanent:
            address = [permanent[interface]]
        # NetworkManager and Anaconda write them in capitals (nm-settings-keyfile(5)).
        address += [a.upper() for a in address if capitals and a != a.upper()]
        found[f"MAC address of {renamed.get(interface, interface)}"] = address
    found.update(_made_addresses(renamed))
    with suppress(Unread):
        found.update(escaped(Disks().identities()))
    found["NVMe host"] = _lines("/etc/nvme/hostnqn", "/etc/nvme/hostid")
    for number, path in enumerate(found_by("/proc/driver/nvidia/gpus/*/information")):
        words = [line.partition(":") for line in _text(path).splitlines()]
        found[f"UUID of GPU {number}"] = [
            value.strip() for name, _, value in words if name.strip() == "GPU UUID"
        ]
    for path in found_by("/etc/ssh/ssh_host_*_key.pub"):
        kind = path.rpartition("/")[2][len("ssh_host_") : -len("_key.pub")]
        found[f"{kind} host key"] = _text(path).split()[1:2]
    found.update(installation(found.get("machine ID", ())))
    found.update(fabric())
    found.update(pci_addresses())
    return {kind: values for kind, values in found.items() if values}


PERMANENT = 0x80
"""IFA_F_PERMANENT of linux/if_addr.h: nobody limits the lifetime of the address."""


def _made_addresses(renamed: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the IPv6 addresses that nobody configured, as ip(8) writes them.

    The kernel makes link-local ones of the MAC address (RFC 4291, appendix A) or of a secret (RFC
    7217); of the latter kind an interface has only one. Global ones with a limited lifetime are
    from a router or a DHCP server.
    """
    found: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for words in (line.split() for line in _text("/proc/net/if_inet6").splitlines()):
        packed, name = bytes.fromhex(words[0]), words[5]
        address = socket.inet_ntop(socket.AF_INET6, packed)
        ending = interface_identifier("".join(_lines(f"/sys/class/net/{name}/address")))
        made = bool(ending) and packed.endswith(ending)
        name = renamed.get(name, name)
        is_local = packed[0] == 0xFE and packed[1] & 0xC0 == 0x80
        if not is_local and (made or not int(words[4], 16) & PERMANENT):
            network = socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8))
            found.setdefault(f"made address in {network}/64 of {name}", []).append(address)
        elif made:
            found[f"link-local address of {name}"] = [address]
        elif is_local:
            others.setdefault(f"link-local address of {name}", []).append(address)
    for kind, addresses in others.items():
        if len(addresses) == 1:
            found.setdefault(kind, addresses)
    return found


def _text(path: str) -> str:
    with suppress(Unread):
        return text_of(path)
    return ""


def _lines(*paths: str) -> list[str]:
    found: Iterable[str] = ()
    with suppress(Unread):
        found = [line_of(path, "") for path in paths]
    return sorted({line for line in found if line})
