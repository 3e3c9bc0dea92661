"""Prometheus' node exporter on the management address only.

Owns     its arguments and unit.
"""

from __future__ import annotations

from pyinfra.api import deploy

from lockstep.files import managed
from lockstep.plan import NodePlan
from roles._files import managed_files
from roles._service import service


@deploy("Node exporter")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    if "node_exporter" not in plan.capabilities:
        return
    files = managed(plan, None, "node_exporter")
    managed_files(name="Files", files=files)
    service(
        name="Exporter",
        unit="prometheus-node-exporter.service",
        files=(*(f.path for f in files), "/usr/bin/prometheus-node-exporter"),
    )
