"""Expands ranges of nodes: one ``Node`` per machine, with consecutive addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from netaddr import IPAddress

from lockstep.spec import names
from lockstep.spec.model import Cluster, Network, NodeGroup, Role, Service


@dataclass(frozen=True)
class Node:
    """One machine."""

    name: str
    role: Role
    hardware: str
    management: IPAddress
    fabric: tuple[IPAddress, ...]
    """One address per rail; empty without a fabric address."""
    runs: tuple[Service, ...]
    group: int
    """Index in ``Cluster.nodes``, for messages."""


def nodes(cluster: Cluster) -> Iterator[Node]:
    """Yield every node of the cluster in the order of the description."""
    fabric = cluster.networks.get("fabric")
    for index, group in enumerate(cluster.nodes):
        yield from _group(group, index, fabric)


def _group(group: NodeGroup, index: int, fabric: Network | None) -> Iterator[Node]:
    rails = range(fabric.rails if fabric else 1)
    # Integers are faster: netaddr would create an object for every step of the arithmetic.
    management, version = int(group.management), group.management.version
    first = None if group.fabric is None else int(group.fabric)
    for offset, name in enumerate(names.expand(group.name)):
        yield Node(
            name=name,
            role=group.role,
            hardware=group.hardware,
            management=IPAddress(management + offset, version),
            fabric=()
            if first is None or group.fabric is None
            else tuple(
                IPAddress(first + offset + (rail << RAIL_SHIFT), group.fabric.version)
                for rail in rails
            ),
            runs=group.runs,
            group=index,
        )


RAIL_SHIFT = 64
"""Rail r uses the r-th /64 of the fabric prefix: its addresses are r * 2**64 above rail 0."""
