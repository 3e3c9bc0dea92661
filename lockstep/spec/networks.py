"""The types of a description's networks: one or two address families, with subnets for rails."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from netaddr import IPAddress, IPNetwork
from pydantic import Field

from lockstep.spec.fields import Address, Model, Network_

Manager = Literal["unmanaged", "release", "ifupdown", "netplan", "networkd", "networkmanager"]


@dataclass(frozen=True)
class Subnets:
    """One address family of a network: the subnets of its rails, one after the other."""

    prefix: IPNetwork
    first_rail: IPNetwork
    """The subnet of the first rail: the whole network if there is only one rail."""
    gateway: IPAddress | None

    @property
    def rail_step(self) -> int:
        """How much higher a node's address is on the next rail."""
        return int(self.first_rail.size)


class SecondFamily(Model):
    """The other address family of a network with IPv4 and IPv6, on the same interfaces."""

    prefix: Network_
    """The network with its prefix length: IPv4 if the network's own prefix is IPv6, and the
    reverse."""
    rail_length: Annotated[int, Field(ge=8, le=127)] | None = None
    """Length of each rail's prefix, in bits; None: 64 with IPv6, 24 with IPv4."""
    gateway: Address | None = None
    """Router of this family, with the meaning of the network's own ``gateway``."""


class Network(Model):
    """One network; each of its rails is a subnet, in which every node has one address."""

    prefix: Network_
    """The network with its prefix length, IPv6 or IPv4."""
    rails: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of rails. A single rail uses the whole prefix; several rails have a subnet each, one
    after the other, of the length ``rail_length``."""
    rail_length: Annotated[int, Field(ge=8, le=127)] | None = None
    """Length of each rail's prefix, in bits; None: 64 with IPv6, 24 with IPv4."""
    manager: Manager = "unmanaged"
    """The program in whose files Lockstep keeps the addresses of this network (docs/network.md).

    "release": the one that the OS release usually has. "unmanaged": Lockstep checks the addresses,
    but does not configure them.
    """
    mtu: Annotated[int, Field(ge=1280, le=65520)] | None = None
    """MTU of the interfaces, in bytes; None: not set, and compared between nodes."""
    gateway: Address | None = None
    """Router. On the management network it gets the default route. On the fabric it is the router
    of the first rail; each rail gets a routing table of its own. With IPv6 it can be link-local
    (fe80::1); on the fabric, all rails then have a router with this address."""
    name_servers: tuple[Address, ...] = ()
    """DNS servers of the management network."""
    second_family: SecondFamily | None = None
    """IPv4 beside IPv6, or the reverse: every node with an address in this network also has one of
    this family, on the same interface. Lockstep, Slurm and Prometheus use the first family; names
    in /etc/hosts have its addresses only."""

    @cached_property
    def families(self) -> tuple[Subnets, ...]:
        """The network in its own family, and then in its second one, if it has one."""
        every = (self, self.second_family) if self.second_family else (self,)
        return tuple(
            Subnets(one.prefix, _first_rail(one.prefix, self.rails, one.rail_length), one.gateway)
            for one in every
        )


def _first_rail(prefix: IPNetwork, rails: int, rail_length: int | None) -> IPNetwork:
    usual, bits = (64, 128) if prefix.version == 6 else (24, 32)
    length = prefix.prefixlen if rails == 1 else rail_length or usual
    return IPNetwork(f"{prefix.ip}/{min(length, bits)}")
