"""Validates the networks, and the address of every node in them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from operator import itemgetter

from netaddr import IPAddress, IPNetwork

from lockstep.report import alike, fold
from lockstep.spec import names
from lockstep.spec.expand import nodes, rail_steps
from lockstep.spec.model import Cluster
from lockstep.spec.networks import Subnets
from lockstep.spec.problem import Problem, Relation, violated

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
        several, second = network.rails > 1, network.second_family
        yield from violated(
            ("networks", name),
            (
                name == "management" and several,
                ("rails",),
                str(network.rails),
                "1: only the fabric can have several rails",
            ),
            *_subnets(network.rails, network.families[0], network.rail_length),
        )
        if second is not None:
            other = 4 if network.prefix.version == 6 else 6
            yield from violated(
                ("networks", name, "second_family"),
                (
                    second.prefix.version != other,
                    ("prefix",),
                    str(second.prefix),
                    f"an IPv{other} network: the first family of this network has {network.prefix}",
                ),
                *_subnets(network.rails, network.families[1], second.rail_length),
            )
    # The fabric comes last, so that a problem names it.
    named = sorted(cluster.networks.items(), key=lambda item: item[0] == "fabric")
    for (_, first), (name, network) in combinations(named, 2):
        fields = zip(FIELDS, network.families, strict=False)
        for management, (field, family) in product(first.families, fields):
            if _overlap(management.prefix, family.prefix):
                yield Problem(
                    ("networks", name, *field, "prefix"),
                    str(family.prefix),
                    f"a network outside of the management network, {management.prefix}",
                )


FIELDS: tuple[tuple[str, ...], ...] = ((), ("second_family",))
"""Where a network has the fields of each of its families."""


def _subnets(rails: int, family: Subnets, rail_length: int | None) -> Iterator[Relation]:
    prefix = family.prefix
    length, longest = family.first_rail.prefixlen, BITS[prefix.version] - 1
    special = next((net for net in NO_HOSTS if _overlap(prefix, IPNetwork(net))), "")
    yield (
        special,
        ("prefix",),
        str(prefix),
        f"a network of hosts; {special} is for {NO_HOSTS.get(special)}",
    )
    yield (
        rail_length is not None and (rails == 1 or rail_length > longest),
        ("rail_length",),
        str(rail_length),
        f"at most {longest} with {prefix}"
        if rails > 1
        else "no length without several rails: a single rail has the whole prefix",
    )
    yield (
        rails > 1 << max(0, length - prefix.prefixlen),
        ("prefix",),
        str(prefix),
        f"a prefix with room for {rails} rails of the length /{length} (rail_length)",
    )


def _overlap(one: IPNetwork, other: IPNetwork) -> bool:
    return one.version == other.version and one.first <= other.last and other.first <= one.last


def _room_to_count(cluster: Cluster) -> Iterator[Problem]:
    """Find groups whose last address would lie outside the address space."""
    fabric = cluster.networks.get("fabric")
    rails, (first, second) = rail_steps(fabric)
    for index, group in enumerate(cluster.nodes):
        steps = len(names.expand(group.name)) - 1
        allowed = f"a lower address: {steps} more must follow it, one per node"
        for kind, address, reach in (
            ("management", group.management, steps),
            ("management_second", group.management_second, steps),
            ("fabric", group.fabric, steps + (rails - 1) * first),
            ("fabric_second", group.fabric_second, steps + (rails - 1) * second),
        ):
            if address is not None and int(address) + reach >> BITS[address.version]:
                yield Problem(("nodes", index, kind), str(address), allowed, group.name)


def address_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find addresses that are outside their network, used twice, or no host's."""
    # Integers are faster than netaddr objects: 2,000 nodes with 8 rails need 18,000 comparisons.
    owner: dict[tuple[int, int], tuple[str, str]] = {}
    families = _families(cluster)
    yield from _without_second(cluster)
    wrong = []
    for node in nodes(cluster):
        second = () if node.management_second is None else (node.management_second,)
        for kind, addresses in (
            ("management", (node.management,)),
            ("management_second", second),
            ("fabric", node.fabric),
            ("fabric_second", node.fabric_second),
        ):
            for rail, address in enumerate(addresses):
                allowed, other = _allowed_address(kind, rail, address, families.get(kind)), ""
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


SECOND = "_second"
"""End of the names of fields with a node's addresses in a second family."""


def _families(cluster: Cluster) -> dict[str, Subnets]:
    """Return the subnets of each field with addresses of nodes."""
    return {
        f"{name}{end}": family
        for name, network in cluster.networks.items()
        for end, family in zip(("", SECOND), network.families, strict=False)
    }


def _without_second(cluster: Cluster) -> Iterator[Problem]:
    """Find groups with an address in only one of the two families of a network."""
    for name, network in cluster.networks.items():
        fields = (name, f"{name}{SECOND}")
        for index, group in enumerate(cluster.nodes) if network.second_family else ():
            given = [getattr(group, field) is not None for field in fields]
            if any(given) and not all(given):
                lacks = given.index(False)
                yield Problem(
                    ("nodes", index, fields[lacks]),
                    "no address",
                    f"the first node's address in networks.{name}{'.second_family' * lacks}, "
                    f"{network.families[lacks].first_rail}",
                    node=group.name,
                )


def _allowed_address(
    kind: str, rail: int, address: IPAddress, family: Subnets | None
) -> str | None:
    """Return the addresses that would be allowed; None when the address is valid."""
    if family is None and kind.endswith(SECOND):
        name = kind.removesuffix(SECOND)
        return f"no {kind} address, or networks.{name}.second_family"
    if family is None:
        return f"no {kind} address, or a network named {kind!r}"
    kind = kind.removesuffix(SECOND)
    prefix, subnet = family.prefix, family.first_rail
    on_first_rail = int(address) - rail * family.rail_step
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
