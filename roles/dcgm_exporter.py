"""Prometheus' exporter for GPUs: asks the host engine, on the management address only.

Owns     its arguments and unit.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.nvidia import DCGM_EXPORTER
from lockstep.roles._daemon import daemon
from lockstep.roles._role import role


@role("DCGM exporter")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    daemon(plan, "dcgm_exporter", DCGM_EXPORTER, "/usr/bin/dcgm-exporter")
