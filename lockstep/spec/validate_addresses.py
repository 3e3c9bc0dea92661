"""Validates the networks, and the address of every node in them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from operator import itemgetter

from netaddr import IPAddress, IPNetwork

from lockstep.report import alike, fold
from lockstep.spec import names
from lockstep.spec.expand import nodes
from lockstep.spec.model import Cluster, Network
from lockstep.spec.problem import Problem, violated

BITS = {4: 32, 6: 128}
"""IP version -> length of an address in bits."""

NO_HOSTS = {
    "0.0.0.0/8": "hosts that do not know their address",
    "127.0.0.0/8": "the node itself",
    "169.254.0.0/16": "link-local addresses, which no router forwards",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "future use",
    "::/8": "the node itself, and addresses of other forms",
    "fe80::/10": "link-local addresses, which no router forwards",
    "ff00::/8": "multicast",
}
"""Network in which a host has no address that other networks can reach -> what it is for.

Source: RFC 6890, tables 1 to 10 and 17 to 20; RFC 5771; RFC 4291, 2.4.
"""


def uncountable(cluster: Cluster) -> list[Problem]:
    """Return the problems that make it impossible to compute the nodes' addresses."""
    return [*_networks(cluster)] or [*_room_to_count(cluster)]


def _networks(cluster: Cluster) -> Iterator[Problem]:
    if "management" not in cluster.networks:
        yield Problem(
            ("networks",), "no management network", 'a network named "management" for all nodes'
        )
    for name, network in cluster.networks.items():
        management, several, prefix = name == "management", network.rails > 1, network.prefix
        length, longest = network.first_rail.prefixlen, BITS[prefix.version] - 1
        room = 1 << max(0, length - prefix.prefixlen)
        special = next((net for net in NO_HOSTS if _overlap(prefix, IPNetwork(net))), "")
        yield from violated(
            ("networks", name),
            (
                special,
                ("prefix",),
                str(prefix),
                f"a network of hosts; {special} is for {NO_HOSTS.get(special)}",
            ),
            (
                management and several,
                ("rails",),
                str(network.rails),
                "1: only the fabric can have several rails",
            ),
            (
                network.rail_length is not None and (not several or network.rail_length > longest),
                ("rail_length",),
                str(network.rail_length),
                f"at most {longest} with {prefix}"
                if several
                else "no length without several rails: a single rail has the whole prefix",
            ),
            (
                not management and several and network.rails > room,
                ("prefix",),
                str(prefix),
                f"a prefix with room for {network.rails} rails of the length /{length} "
                "(rail_length)",
            ),
        )
    for one, other in combinations(cluster.networks.items(), 2):
        (_, first), (name, network) = sorted((one, other), key=lambda item: item[0] == "fabric")
        if _overlap(first.prefix, network.prefix):
            yield Problem(
                ("networks", name, "prefix"),
                str(network.prefix),
                f"a network outside of the management network, {first.prefix}",
            )


def _overlap(one: IPNetwork, other: IPNetwork) -> bool:
    return one.version == other.version and one.first <= other.last and other.first <= one.last


def _room_to_count(cluster: Cluster) -> Iterator[Problem]:
    """Find groups whose last address would lie outside the address space."""
    fabric = cluster.networks.get("fabric")
    further = 0 if fabric is None else (fabric.rails - 1) * fabric.rail_step
    for index, group in enumerate(cluster.nodes):
        steps = len(names.expand(group.name)) - 1
        allowed = f"a lower address: {steps} more must follow it, one per node"
        for kind, first, reach in (
            ("management", group.management, steps),
            ("fabric", group.fabric, steps + further),
        ):
            if first is not None and int(first) + reach >> BITS[first.version]:
                yield Problem(("nodes", index, kind), str(first), allowed, group.name)


def address_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find addresses that are outside their network, used twice, or no host's."""
    # Integers are faster than netaddr objects: 2,000 nodes with 8 rails need 18,000 comparisons.
    owner: dict[tuple[int, int], tuple[str, str]] = {}
    networks = {str(name): network for name, network in cluster.networks.items()}
    wrong = []
    for node in nodes(cluster):
        for kind, addresses in (("management", (node.management,)), ("fabric", node.fabric)):
            for rail, address in enumerate(addresses):
                allowed, other = _allowed_address(kind, rail, address, networks.get(kind)), ""
                if allowed is None:
                    first = owner.setdefault((address.version, int(address)), (node.name, kind))
                    if first != (node.name, kind):
                        allowed, other = "unique addresses; already used by {}", first[0]
                if allowed is not None:
                    wrong.append((node.group, kind, allowed, str(address), other, node.name))
    # One problem per range and reason: 2,000 nodes in the wrong network are one mistake.
    for (group, kind, allowed), found in alike(wrong, itemgetter(0, 1, 2)).items():
        _, _, _, addresses, others, owners = zip(*found, strict=True)
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield Problem(
            ("nodes", group, kind),
            f"{addresses[0]}{more}",
            allowed.format(fold({*others} - {""})),
            node=fold({*owners}),
        )


def _allowed_address(
    kind: str, rail: int, address: IPAddress, network: Network | None
) -> str | None:
    """Return the addresses that would be allowed; None when the address is valid."""
    if network is None:
        return f"no {kind} address, or a network named {kind!r}"
    prefix, subnet = network.prefix, network.first_rail
    on_first_rail = int(address) - rail * network.rail_step
    if address.version != prefix.version or not prefix.first <= on_first_rail <= prefix.last:
        return f"addresses in the {kind} network {prefix}"
    if on_first_rail > subnet.last:
        # expand() uses the r-th subnet of the prefix for rail r.
        return f"addresses on the first rail, {subnet}; Lockstep derives the others"
    hosts = subnet.size > 2  # both addresses of a link between two machines are hosts
    if hosts and on_first_rail == subnet.first:
        kind = "network address" if prefix.version == 4 else "routers' anycast address (RFC 4291)"
        return f"addresses of hosts: this is the {kind} of {subnet}"
    if hosts and prefix.version == 4 and on_first_rail == subnet.last:
        return f"addresses of hosts: this is the broadcast address of {subnet}"
    return None
