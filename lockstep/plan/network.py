"""The network interfaces that Lockstep configures on a node, and the program that keeps them.

docs/network.md has the sources. A network that the description leaves unmanaged has none here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

from lockstep.catalog.os import Release
from lockstep.spec import Node, names
from lockstep.spec.hardware import HardwareClass
from lockstep.spec.networks import Network, Subnets

Networks = Mapping[Literal["management", "fabric"], Network]
MANAGEMENT: Literal["management"] = "management"
FIRST_TABLE = 1000
"""Routing table of the first rail, and the priority of its rule; the other rails follow. The kernel
uses 253 to 255 and priorities 0, 32766 and 32767 (ip-rule(8))."""


@dataclass(frozen=True)
class Assigned:
    """An address of an interface, with its network and router."""

    address: str
    prefix: str
    """The network of the address, with its length."""
    gateway: str = ""

    @property
    def length(self) -> int:
        """Length of the prefix, in bits."""
        return int(self.prefix.rpartition("/")[2])

    @property
    def with_length(self) -> str:
        """The address with the length of its prefix."""
        return f"{self.address}/{self.length}"

    @property
    def ipv6(self) -> bool:
        """Whether the address is an IPv6 address."""
        return ":" in self.address

    @property
    def family(self) -> str:
        """``ipv4`` or ``ipv6``."""
        return "ipv6" if self.ipv6 else "ipv4"


@dataclass(frozen=True)
class Interface:
    """One network interface, with all settings that its file has."""

    name: str
    purpose: str
    """``management``, or ``rail0`` and so on."""
    manager: str
    """A key of ``UNITS``."""
    assigned: tuple[Assigned, ...]
    """The address in the network's own family, and then in its second one, if it has one."""
    mtu: int | None = None
    """In bytes; None: not set."""
    table: int | None = None
    """Routing table of a rail that has a router, also the priority of its rule."""
    name_servers: tuple[str, ...] = ()
    ipoib_mode: Literal["", "datagram", "connected"] = ""
    """Empty: not an InfiniBand interface."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses, without the lengths of their prefixes."""
        return tuple(one.address for one in self.assigned)

    @property
    def routers(self) -> tuple[str, ...]:
        """The routers of default routes in the main table; a rail has none."""
        return () if self.is_rail else tuple(one.gateway for one in self.assigned if one.gateway)

    def name_servers_of(self, own: Assigned) -> tuple[str, ...]:
        """Return the name servers in the family of one of the interface's addresses."""
        return tuple(server for server in self.name_servers if (":" in server) == own.ipv6)

    @property
    def is_rail(self) -> bool:
        """Whether the interface belongs to the fabric."""
        return self.purpose != MANAGEMENT


def manager_of(network: Network | None, release: Release) -> str:
    """Return the program that keeps a network's interfaces; "" if Lockstep does not manage it."""
    if network is None or network.manager == "unmanaged":
        return ""
    if network.manager == "release":
        return next(iter(release.network_managers), "")
    return str(network.manager)


def plan(
    node: Node, hardware: HardwareClass, networks: Networks, release: Release
) -> tuple[Interface, ...]:
    """Return the interfaces that Lockstep configures on a node, the management interface first."""
    return (
        *_management(node, hardware, networks.get(MANAGEMENT), release),
        *_rails(node, hardware, networks.get("fabric"), release),
    )


def _management(
    node: Node, hardware: HardwareClass, network: Network | None, release: Release
) -> Iterator[Interface]:
    manager = manager_of(network, release)
    if network is not None and manager:
        yield Interface(
            name=hardware.management_interface,
            purpose=MANAGEMENT,
            manager=manager,
            assigned=tuple(
                Assigned(str(address), str(family.prefix), str(family.gateway or ""))
                for address, family in zip(
                    (node.management, node.management_second), network.families, strict=False
                )
            ),
            mtu=network.mtu,
            name_servers=tuple(map(str, network.name_servers)),
        )


def _rails(
    node: Node, hardware: HardwareClass, network: Network | None, release: Release
) -> Iterator[Interface]:
    manager = manager_of(network, release)
    if network is None or not manager or not node.fabric:
        return
    nics = hardware.nics
    gateways = any(family.gateway is not None for family in network.families)
    for rail, name in enumerate(names.expand(nics.interfaces)):
        yield Interface(
            name=name,
            purpose=f"rail{rail}",
            manager=manager,
            assigned=tuple(
                _on_rail(rail, str(addresses[rail]), family)
                for addresses, family in zip(
                    (node.fabric, node.fabric_second), network.families, strict=False
                )
            ),
            mtu=network.mtu,
            table=FIRST_TABLE + rail if gateways else None,
            ipoib_mode=nics.ipoib_mode if nics.rdma == "infiniband" else "",
        )


def _on_rail(rail: int, address: str, family: Subnets) -> Assigned:
    shift = rail * family.rail_step
    first = family.prefix.first + shift
    return Assigned(
        address=address,
        prefix=f"{_text(first, family.prefix.version)}/{family.first_rail.prefixlen}",
        gateway=_router(str(family.gateway or ""), shift),
    )


def _router(of_first_rail: str, shift: int) -> str:
    """Return the router of a rail; every link has link-local addresses of its own."""
    if not of_first_rail:
        return ""
    first = ip_address(of_first_rail)
    return str(first) if first.is_link_local else _text(int(first) + shift, first.version)


def _text(number: int, version: int) -> str:
    """Return an address as text."""
    return str(IPv6Address(number) if version == 6 else IPv4Address(number))


UNITS = {
    "ifupdown": "networking.service",
    "netplan": "systemd-networkd.service",
    "networkd": "systemd-networkd.service",
    "networkmanager": "NetworkManager.service",
}
"""Program -> the unit that configures its interfaces at boot; netplan's files are for networkd."""


def path_of(interface: Interface) -> str:
    """Return the path of the file that has an interface's settings.

    No file has settings of the management interface and of a rail: a change of one must not look
    like a change of the other.
    """
    rails = "-rails" if interface.is_rail else ""
    return {
        "ifupdown": f"/etc/network/interfaces.d/50-lockstep{rails}",
        "netplan": f"/etc/netplan/90-lockstep{rails}.yaml",
        # The first file that matches counts, and netplan's begin with "10-netplan-".
        "networkd": f"/etc/systemd/network/10-lockstep-{interface.name}.network",
        "networkmanager": "/etc/NetworkManager/system-connections/"
        f"lockstep-{interface.name}.nmconnection",
    }[interface.manager]


def gateway_families(interfaces: tuple[Interface, ...]) -> tuple[str, ...]:
    """Return the families whose default route uses an interface that Lockstep configures."""
    own = (assigned for one in interfaces if not one.is_rail for assigned in one.assigned)
    return tuple(dict.fromkeys(one.family for one in own))


NETWORKD = UNITS["networkd"]
GENERATED = "/run/systemd/network"
"""Folder of the files that netplan generates for networkd, again at each daemon-reload."""


def not_to_reload(interfaces: tuple[Interface, ...]) -> tuple[str, ...]:
    """Return the paths that, if networkd has not read them, keep rails from a networkctl reload.

    The reload configures every interface whose file is new or modified (networkctl(1)), and one of
    them could be the management interface.
    """
    own = (path_of(one) for one in interfaces if not one.is_rail and UNITS[one.manager] == NETWORKD)
    return (*own, GENERATED)
