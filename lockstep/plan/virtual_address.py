"""The virtual address of Kubernetes' API server, which keepalived moves between the heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.plan.kubernetes import control_planes
from lockstep.spec import Service

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

CONFIG = "/etc/keepalived/keepalived.conf"
READY_PRIORITY = 150
"""Priority of a head whose API server answers, the same on all heads (keepalived.conf(5))."""
FIRST_PRIORITY, OTHER_PRIORITY = 101, 100
"""Priorities of heads whose API servers do not answer."""
ROUTER_ID = 51
"""virtual_router_id; other clusters in the same network may have it, too, because the heads send
unicast (keepalived.conf(5))."""


@dataclass(frozen=True)
class VirtualAddress:
    """What keepalived's configuration on one head contains."""

    interface: str
    priority: int
    weight: int
    """What the priority gains while the API server answers."""
    peers: tuple[str, ...]
    """Addresses of the other heads."""
    length: int
    """Of the prefix: the whole address, so that the kernel never sends from it."""


def has_virtual_address(node: NodePlan) -> bool:
    """Return whether a node is one of those between which the address moves."""
    settings = node.spec.kubernetes
    return (
        settings is not None
        and settings.virtual_address is not None
        and node.runs(Service.KUBERNETES_CONTROL_PLANE)
    )


def plan(node: NodePlan) -> VirtualAddress:
    """Return keepalived's settings for a head that ``has_virtual_address``."""
    heads = control_planes(node)
    priority = FIRST_PRIORITY if heads[0].name == node.name else OTHER_PRIORITY
    return VirtualAddress(
        interface=node.hardware.hardware.management_interface,
        priority=priority,
        weight=READY_PRIORITY - priority,
        peers=tuple(head.address for head in heads if head.name != node.name),
        length=128 if node.address_family == "ipv6" else 32,
    )
