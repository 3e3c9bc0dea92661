"""Expands node ranges: one ``Node`` per machine, with consecutive addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from netaddr import IPAddress

from lockstep.spec import names
from lockstep.spec.model import Cluster, NodeRole, Service


@dataclass(frozen=True)
class Node:
    """One machine."""

    name: str
    role: NodeRole
    hardware: str
    management: IPAddress
    fabric: tuple[IPAddress, ...]
    """One address per rail; empty if the node group has no fabric address."""
    runs: tuple[Service, ...]
    release: str
    """Name of the operating system release."""
    nvlink_domain: str
    """Name of the NVLink domain, whose nodes share GPU memory; "" without one."""
    leaf_switch: str
    """Name of the leaf switch of the fabric; "" without one."""
    group: int
    """Index of the node group in ``Cluster.nodes``, for messages."""


def nodes(cluster: Cluster) -> Iterator[Node]:
    """Yield every node of the cluster in the order of the description."""
    fabric = cluster.networks.get("fabric")
    step = fabric.rail_step if fabric else 0
    for index, group in enumerate(cluster.nodes):
        # Integers are faster: netaddr would create an object for every addition.
        domain = cluster.domain_of(group)
        management, first = int(group.management), int(group.fabric or 0)
        for offset, name in enumerate(names.expand(group.name)):
            yield Node(
                name=name,
                role=group.role,
                hardware=group.hardware,
                management=IPAddress(management + offset, group.management.version),
                fabric=tuple(
                    IPAddress(first + offset + rail * step, group.fabric.version)
                    for rail in range(fabric.rails if fabric else 1)
                )
                if group.fabric is not None
                else (),
                runs=group.runs,
                release=cluster.release_of(group),
                nvlink_domain=domain,
                leaf_switch=group.leaf_switch or "",
                group=index,
            )
