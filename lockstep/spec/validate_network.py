"""Validates the configuration of network interfaces: managers, routers, names and MTUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from netaddr import IPAddress

from lockstep.catalog import os as operating_systems
from lockstep.report import fold
from lockstep.spec import names
from lockstep.spec.hardware import HardwareClass
from lockstep.spec.model import Cluster, NodeGroup
from lockstep.spec.networks import Network, Subnets
from lockstep.spec.problem import Problem, Relation, violated

LONGEST_NAME = 15
"""Characters in the name of an interface (IFNAMSIZ in linux/if.h, without the final zero)."""
LARGEST_DATAGRAM_MTU = 4092
"""IPoIB in datagram mode: the largest MTU of InfiniBand, 4096, minus a header of 4 bytes (RHEL 9,
Configuring InfiniBand and RDMA networks, "The IPoIB communication modes")."""


def network_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find problems of the networks whose addresses Lockstep configures, and of their MTUs."""
    for kind, network in cluster.networks.items():
        yield from violated(
            ("networks", kind),
            *_manager(cluster, network),
            *_settings(kind, network),
            *_gateway(cluster, kind, network),
        )
        if network.second_family is not None:
            relations = _gateway(cluster, kind, network, second=True)
            yield from violated(("networks", kind, "second_family"), *relations)
    for name, hardware in cluster.hardware.items():
        if any(group.hardware == name for group in cluster.nodes):
            yield from violated(("hardware", name), *_interfaces(cluster, name, hardware))


def is_managed(network: Network | None) -> bool:
    """Return whether Lockstep configures the addresses of a network."""
    return network is not None and network.manager != "unmanaged"


def _manager(cluster: Cluster, network: Network) -> Iterator[Relation]:
    for name in cluster.releases if is_managed(network) else ():
        release = operating_systems.find(name)
        offered = () if release is None else ("release", *release.network_managers)
        yield (
            release is not None and network.manager not in offered,
            ("manager",),
            network.manager,
            f"on {name} one of {', '.join(offered)}",
        )


def _settings(name: str, network: Network) -> Iterable[Relation]:
    managed, servers = is_managed(network), ", ".join(map(str, network.name_servers))
    families = {family.prefix.version for family in network.families}
    out_of_reach = [str(one) for one in network.name_servers if one.version not in families]
    return (
        (
            name == "management" and out_of_reach,
            ("name_servers",),
            ", ".join(out_of_reach),
            f"IPv{' or IPv'.join(map(str, sorted(families)))} addresses: the nodes have no other "
            "in this network",
        ),
        (servers and name == "management" and not managed, ("name_servers",), servers, NEEDS),
        (
            servers and name != "management",
            ("name_servers",),
            servers,
            "leave it out: nodes reach name servers on the management network",
        ),
    )


NEEDS = 'leave it out, or set manager to "release": Lockstep must configure the interfaces'


def _gateway(
    cluster: Cluster, kind: str, network: Network, *, second: bool = False
) -> Iterator[Relation]:
    family = network.families[second]
    gateway = family.gateway
    if gateway is None:
        return
    field, value = ("gateway",), str(gateway)
    yield not is_managed(network), field, value, NEEDS
    yield (
        not (_is_link_local(gateway) or _can_be_a_router(gateway, family)),
        field,
        value,
        _routers(network.rails, family),
    )
    kind += "_second" if second else ""
    owners = [name for group in cluster.nodes for name in _with_address(group, kind, gateway)]
    yield (
        owners,
        field,
        value,
        f"the address of a router; {fold(owners)} has this one",
    )


def _is_link_local(address: IPAddress) -> bool:
    """Return whether an address can be a router's link-local address.

    The routes that routers announce use it (RFC 4861, 4.2: the source of an advertisement is
    link-local), and redirects need it (RFC 4861, 8). IPv4 has no such routers.
    """
    return bool(address.version == 6 and address.is_link_local())


def _can_be_a_router(gateway: IPAddress, family: Subnets) -> bool:
    """Return whether an address is one of a node's neighbour: in the subnet, and of one machine.

    The first address of a subnet is all its routers (RFC 4291, 2.6.1) or the network itself, the
    last one of an IPv4 subnet is all its machines (RFC 919). A /31 and a /127 have neither (RFC
    3021, RFC 6164).
    """
    prefix = family.first_rail
    first, last = prefix.first, prefix.last
    if last - first > 1:
        first, last = first + 1, last - (prefix.version == 4)
    return bool(gateway.version == prefix.version and first <= int(gateway) <= last)


def _routers(rails: int, family: Subnets) -> str:
    """Return the addresses that are allowed for the router of a network, in words."""
    prefix = family.prefix
    if rails > 1:
        inside = f"an address in {family.first_rail}, the first rail (Lockstep derives the others)"
    else:
        inside = f"an address in {prefix}"
    return inside + (", or a link-local one" if prefix.version == 6 else "")


def _with_address(group: NodeGroup, kind: str, address: IPAddress) -> Iterator[str]:
    """Yield the node of a group that has an address, on the first rail if it is the fabric."""
    first = getattr(group, kind)
    if first is not None and first.version == address.version:
        offset, members = int(address) - int(first), names.expand(group.name)
        if 0 <= offset < len(members):
            yield members[offset]


def _interfaces(cluster: Cluster, name: str, hardware: HardwareClass) -> Iterator[Relation]:
    """Yield the relations of a hardware class that nodes use."""
    management, fabric = (cluster.networks.get("management"), cluster.networks.get("fabric"))
    own = names.expand(hardware.management_interface) if hardware.management_interface else ()
    nics = hardware.nics
    rails = names.expand(nics.interfaces) if nics.interfaces else ()
    if is_managed(management):
        yield (
            len(own) != 1,
            ("management_interface",),
            hardware.management_interface or "no name",
            "the name of the interface with the management address; networks.management.manager "
            "needs it",
        )
        yield from _too_long(own, ("management_interface",))
        yield (
            set(own) & set(rails),
            ("management_interface",),
            ", ".join(own),
            f"an interface that is not in nics.interfaces, {nics.interfaces}",
        )
    has_rails = any(g.hardware == name and g.fabric is not None for g in cluster.nodes)
    if fabric is None or not has_rails:
        return
    if is_managed(fabric):
        yield (
            len(rails) != fabric.rails,
            ("nics", "interfaces"),
            f"{nics.interfaces}: {len(rails)} names" if rails else "no names",
            f"{fabric.rails} {'name' if fabric.rails == 1 else 'names'}, one per rail in the order "
            "of the rails; networks.fabric.manager needs them",
        )
        yield from _too_long(rails, ("nics", "interfaces"))
    yield (
        nics.rdma == "infiniband"
        and nics.ipoib_mode == "datagram"
        and (fabric.mtu or 0) > LARGEST_DATAGRAM_MTU,
        ("nics", "ipoib_mode"),
        f"datagram with networks.fabric.mtu {fabric.mtu}",
        f"a networks.fabric.mtu of {LARGEST_DATAGRAM_MTU} at most, or connected mode",
    )


def _too_long(interfaces: Iterable[str], field: tuple[str, ...]) -> Iterator[Relation]:
    long = next((one for one in interfaces if len(one) > LONGEST_NAME or one in (".", "..")), "")
    yield long, field, long, f"names of interfaces, {LONGEST_NAME} characters at most"
