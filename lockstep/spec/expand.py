"""Expands node ranges: one ``Node`` per machine, with consecutive addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from netaddr import IPAddress, IPNetwork

from lockstep.spec import names
from lockstep.spec.model import Cluster, NodeRole, Service
from lockstep.spec.networks import Network


@dataclass(frozen=True)
class Node:
    """One machine."""

    name: str
    role: NodeRole
    hardware: str
    management: IPAddress
    fabric: tuple[IPAddress, ...]
    """One address per rail; empty if the node group has no fabric address."""
    management_second: IPAddress | None
    """Management address of the network's second family; None without one."""
    fabric_second: tuple[IPAddress, ...]
    """Like ``fabric``, in the fabric's second family."""
    runs: tuple[Service, ...]
    release: str
    """Name of the operating system release."""
    nvlink_domain: str
    """Name of the NVLink domain, whose nodes share GPU memory; "" without one."""
    leaf_switch: str
    """Name of the leaf switch of the fabric; "" without one."""
    scheduler: Literal["slurm", "kubernetes", ""]
    """The scheduler that gives jobs to the node; "" on heads, and without one."""
    pods: IPNetwork | None
    """Network of the node's pods; None if it has none."""
    group: int
    """Index of the node group in ``Cluster.nodes``, for messages."""


def nodes(cluster: Cluster) -> Iterator[Node]:
    """Yield every node of the cluster in the order of the description."""
    rails, (step, second_step) = rail_steps(cluster.networks.get("fabric"))
    for index, group in enumerate(cluster.nodes):
        domain = cluster.domain_of(group)
        for offset, name in enumerate(names.expand(group.name)):
            yield Node(
                name=name,
                role=group.role,
                hardware=group.hardware,
                management=_later(group.management, offset),
                fabric=_on_rails(group.fabric, offset, rails, step),
                management_second=None
                if group.management_second is None
                else _later(group.management_second, offset),
                fabric_second=_on_rails(group.fabric_second, offset, rails, second_step),
                runs=group.runs,
                release=cluster.release_of(group),
                nvlink_domain=domain,
                leaf_switch=group.leaf_switch or "",
                scheduler=cluster.scheduler_of(group),
                pods=_next_network(group.pods, offset),
                group=index,
            )


def rail_steps(fabric: Network | None) -> tuple[int, tuple[int, int]]:
    """Return the number of rails, and how much higher an address is on the next one.

    The second step is that of the second family; 0 without one.
    """
    if fabric is None:
        return 1, (0, 0)
    first, second, *_ = (*(one.rail_step for one in fabric.families), 0)
    return fabric.rails, (first, second)


def _later(address: IPAddress, offset: int) -> IPAddress:
    # Integers are faster: netaddr would create an object for every addition.
    return IPAddress(int(address) + offset, address.version)


def _next_network(first: IPNetwork | None, offset: int) -> IPNetwork | None:
    if first is None:
        return None
    address = IPAddress(first.first + offset * first.size, first.version)
    return IPNetwork(f"{address}/{first.prefixlen}")


def _on_rails(first: IPAddress | None, offset: int, rails: int, step: int) -> tuple[IPAddress, ...]:
    if first is None:
        return ()
    return tuple(_later(first, offset + rail * step) for rail in range(rails))
