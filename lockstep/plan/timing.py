"""Where each node's clock comes from: heads from the declared servers, workers from the heads."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.spec import Cluster


@dataclass(frozen=True)
class TimePlan:
    """chrony.conf(5) in three facts."""

    servers: tuple[str, ...]
    reference: bool
    """True on the one node that is the cluster's own reference: it follows no server."""
    allow: tuple[str, ...]
    """Networks this node serves."""


def plan(cluster: Cluster, heads: tuple[str, ...], name: str) -> TimePlan:
    """Return the time plan of a node."""
    management = str(cluster.networks["management"].prefix)
    if name not in heads:
        return TimePlan(servers=heads, reference=False, allow=())
    if cluster.time.servers:
        return TimePlan(servers=cluster.time.servers, reference=False, allow=(management,))
    first = heads[0]
    if name == first:
        return TimePlan(servers=(), reference=True, allow=(management,))
    return TimePlan(servers=(first,), reference=False, allow=(management,))
