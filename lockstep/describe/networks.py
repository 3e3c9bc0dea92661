"""The management network, and the fabric with its rails, from the addresses of the nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from netaddr import IPNetwork, spanning_cidr

from lockstep.describe.seen import Seen
from lockstep.describe.values import PLAIN, Block, Value, agreed, found_on, named, table, todo
from lockstep.report import alike, count, fold
from lockstep.spec.names import expand

VIRTUAL = re.compile(r"(docker|br-|virbr|cni|flannel|cali|veth|lxc|tun|tap|wg|podman|vnet).*")
"""Interfaces of containers, virtual machines and tunnels."""
LAYERS = {"InfiniBand": "infiniband", "Ethernet": "roce"}
SHORTEST = {4: 8, 6: 16}
"""The shortest prefix of a management network that is made of several networks."""
USUAL_RAIL = {4: 24, 6: 64}


@dataclass(frozen=True)
class Fabric:
    """The fabric as a description has it, or the reason why it has none."""

    prefix: str = ""
    rails: int = 1
    rail_length: int | None = None
    note: str = ""
    members: frozenset[str] = frozenset()
    """Hosts whose addresses fit."""
    why_not: str = ""


class Networks:
    """The networks of some nodes."""

    def __init__(self, nodes: Sequence[Seen]) -> None:
        """Find the networks of these nodes."""
        self.nodes = nodes

    def management(self, one: Seen) -> tuple[str, IPNetwork] | None:
        """Return the interface and the address through which a node was reached; None: unknown."""
        every = [
            (interface, IPNetwork(address))
            for interface, addresses in one.items("describe.addresses").items()
            for address in addresses
        ]
        for wanted in (one.get("describe.reached_at"), one.host):
            for interface, address in every:
                if str(address.ip) == wanted:
                    return interface, address
        return every[0] if len(every) == 1 else None

    def second(self, one: Seen) -> IPNetwork | None:
        """Return the address of the other family on the management interface; None without one."""
        own = self.management(one)
        if own is None:
            return None
        every = map(IPNetwork, one.items("describe.addresses")[own[0]])
        others = [address for address in every if address.version != own[1].version]
        return others[0] if len(others) == 1 else None

    def devices(self, one: Seen) -> list[str]:
        """Return the RDMA devices of the fabric: those of InfiniBand, or else of RoCE."""
        layers = one.items("rdma.link_layer")
        links = one.items("rdma.netdev")
        own = self.management(one)
        infiniband = [name for name, layer in layers.items() if layer == "InfiniBand"]
        roce = [
            name
            for name, layer in layers.items()
            if layer == "Ethernet" and (own is None or links.get(name) != own[0])
        ]
        return sorted(infiniband or roce, key=_numbers)

    def interfaces(self, one: Seen) -> list[str]:
        """Return the fabric interfaces of a node, in the order of their rails."""
        links = one.items("rdma.netdev")
        if devices := self.devices(one):
            return [str(links[name]) for name in devices if links.get(name)]
        own = self.management(one)
        names = [
            name
            for name in one.items("describe.addresses")
            if not VIRTUAL.fullmatch(name) and (own is None or name != own[0])
        ]
        return sorted(names, key=_numbers)

    def rails(self, one: Seen, version: int) -> list[IPNetwork]:
        """Return the fabric addresses of a node in one family, one for each rail; [] if one lacks.

        Interfaces without any address are no rails.
        """
        addresses = one.items("describe.addresses")
        of_rail = [
            [IPNetwork(text) for text in addresses.get(name, ())] for name in self.interfaces(one)
        ]
        chosen = [
            next((address for address in found if address.version == version), None)
            for found in of_rail
            if found
        ]
        found = [address for address in chosen if address is not None]
        return found if len(found) == len(chosen) else []

    def _of_family(self, version: int) -> Fabric:
        own = {one.host: rails for one in self.nodes if (rails := self.rails(one, version))}
        by_rails = alike(own, lambda host: (len(own[host]), own[host][0].prefixlen))
        if not by_rails:
            return Fabric()
        hosts = max(by_rails.values(), key=len)
        return _fabric({host: own[host] for host in hosts}, self.nodes)

    @cached_property
    def fabrics(self) -> tuple[Fabric, ...]:
        """The fabric of all nodes that have one: in its first family, then in the second."""
        found = [self._of_family(version) for version in (6, 4)]
        having = [one for one in found if one.prefix]
        if len(having) == 2 and having[0].members != having[1].members:
            having = having[:1]
        return tuple(having) or (max(found, key=lambda one: one.why_not),)

    @property
    def fabric(self) -> Fabric:
        """The fabric in its first family."""
        return self.fabrics[0]

    def fabric_addresses(self, one: Seen) -> list[str]:
        """Return a node's addresses on the first rail, one for each family of the fabric."""
        return [
            str(self.rails(one, IPNetwork(fabric.prefix).version)[0].ip)
            for fabric in self.fabrics
            if one.host in fabric.members
        ]

    @cached_property
    def second_management(self) -> Value | None:
        """The prefix of the other family of the management network; None if not all nodes have one.

        Addresses that routers or DHCP gave need not follow each other, and then each node would be
        a group.
        """
        ordered = sorted(self.nodes, key=lambda one: one.order)
        own = [(one, self.management(one), self.second(one)) for one in ordered]
        steps: dict[str, set[int]] = {}
        networks = set()
        for one, first, other in own:
            if first is None or other is None:
                return None
            # Nodes of one group have one beginning of their names.
            steps.setdefault(one.order[0], set()).add(int(other.ip) - int(first[1].ip))
            networks.add(other.cidr)
        if len(networks) > 1 or any(len(found) > 1 for found in steps.values()):
            return None
        return Value(str(networks.pop()), found_on(self.nodes))

    def of_class(self, nodes: Sequence[Seen]) -> dict[Any, Value | Block]:
        """Return the fields of a hardware class about its interfaces."""
        parts: dict[Any, Value | Block] = {}
        if nics := self._nics(nodes):
            parts["nics"] = table(nics)
        got = agreed(nodes, lambda one: own[0] if (own := self.management(one)) else None)
        if got is not None and re.fullmatch(r"[A-Za-z0-9_.-]{1,15}", got[0]):
            parts["management_interface"] = Value(*got)
        return parts

    def _nics(self, nodes: Sequence[Seen]) -> dict[Any, Value | Block]:
        first, note = nodes[0], found_on(nodes)
        devices, names = self.devices(first), self.interfaces(first)
        parts: dict[Any, Value | Block] = {}
        if devices:
            layer = str(first.items("rdma.link_layer")[devices[0]])
            parts["count"] = Value(len(devices), note)
            parts["rdma"] = Value(LAYERS[layer], note)
            if folded := in_order(devices):
                parts["rdma_devices"] = Value(folded, note)
        elif names and first.host in self.fabric.members:
            parts["count"] = Value(len(names), f"{note}; not the management interface; confirm")
        else:
            return {}
        got = agreed(nodes, lambda one: in_order(self.interfaces(one)) or None)
        if got and len(expand(got[0])) == parts["count"].value:  # type: ignore[union-attr]
            parts["interfaces"] = Value(*got)
        return parts

    def block(self) -> Block:
        """Return the networks as a description has them."""
        management: dict[Any, Value | Block] = {"prefix": self._prefix()}
        above = ["Lockstep checks the addresses, and configures none of them."]
        if second := self.second_management:
            management["second_family"] = table({"prefix": second})
        elif others := [one for one in self.nodes if self.second(one)]:
            above.append(
                f"{named(others)}: the management interface has an address of another family, too. "
                "It is not described: the two addresses of a node do not follow each other alike."
            )
        parts: dict[Any, Value | Block] = {"management": table(management)}
        fabric = self.fabric
        if fabric.prefix:
            found: dict[Any, Value | Block] = {"prefix": Value(fabric.prefix, fabric.note)}
            if fabric.rails > 1:
                found["rails"] = Value(fabric.rails, fabric.note)
            if fabric.rail_length is not None:
                found["rail_length"] = Value(fabric.rail_length, fabric.note)
            for other in self.fabrics[1:]:
                of_other: dict[Any, Value | Block] = {"prefix": Value(other.prefix, other.note)}
                if other.rail_length is not None:
                    of_other["rail_length"] = Value(other.rail_length, other.note)
                found["second_family"] = table(of_other)
            parts["fabric"] = table(found)
        elif fabric.why_not:
            above.append(f"no fabric is described: {fabric.why_not}")
        return table(parts, *above)

    def _prefix(self) -> Value:
        own = {one.host: got[1] for one in self.nodes if (got := self.management(one))}
        lacking = [one for one in self.nodes if one.host not in own]
        if lacking:
            return todo("prefix of the management network", f"not read on {named(lacking)}")
        networks = list(dict.fromkeys(address.cidr for address in own.values()))
        shown = ", ".join(map(str, networks))
        if len(networks) == 1:
            return Value(shown, found_on(self.nodes))
        if len({one.version for one in networks}) == 1:
            whole = spanning_cidr(networks)
            if whole.prefixlen >= SHORTEST[whole.version]:
                return Value(str(whole), f"holds the networks that were found, {shown}; confirm")
        return todo("prefix of the management network", f"the nodes are in {shown}")


def _numbers(name: str) -> list[Any]:
    """Return a key that sorts mlx5_2 before mlx5_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def in_order(names: Sequence[str]) -> str:
    """Return names as one range; "" if the range would have another order."""
    if not names or not all(PLAIN.fullmatch(one) for one in names):
        return ""
    folded = fold(names)
    return folded if list(expand(folded)) == list(names) else ""


def _fabric(own: dict[str, list[IPNetwork]], nodes: Sequence[Seen]) -> Fabric:
    """Return the fabric that has these addresses: rails follow each other, as subnets."""
    having = [one for one in nodes if one.host in own]
    example = ", ".join(map(str, own[having[0].host]))
    rails, length = len(own[having[0].host]), own[having[0].host][0].prefixlen
    first = own[having[0].host][0]
    size = 1 << (first.cidr.size.bit_length() - 1)
    if any(
        address.prefixlen != length
        or address.version != first.version
        or int(address.ip) != int(addresses[0].ip) + rail * size
        or addresses[0].cidr != first.cidr
        for addresses in own.values()
        for rail, address in enumerate(addresses)
    ):
        return Fabric(
            why_not=f"rails must be subnets that follow each other, with the same part for a node "
            f"in each; {having[0].name} has {example}"
        )
    bits = length - (rails - 1).bit_length()
    prefix = IPNetwork(f"{first.network}/{bits}")
    if prefix.network != first.network:
        return Fabric(
            why_not=f"{count(rails, 'rail')} must begin at a multiple of their size; "
            f"{having[0].name} has {example}"
        )
    usual = USUAL_RAIL[first.version]
    return Fabric(
        prefix=str(prefix),
        rails=rails,
        rail_length=None if rails == 1 or length == usual else length,
        note=found_on(having),
        members=frozenset(own),
    )
