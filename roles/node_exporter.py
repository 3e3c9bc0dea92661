"""Prometheus' node exporter on the management address only.

Owns     its arguments and unit.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.roles._daemon import daemon
from lockstep.roles._role import role


@role("Node exporter")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    daemon(
        plan,
        "node_exporter",
        "prometheus-node-exporter.service",
        "/usr/bin/prometheus-node-exporter",
    )
