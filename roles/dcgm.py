"""DCGM's host engine: the one process of a node that asks the boards for metrics.

Owns     its unit.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.nvidia import DCGM
from lockstep.roles._daemon import daemon
from lockstep.roles._role import role


@role("DCGM")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    daemon(plan, "dcgm", DCGM, "/usr/bin/nv-hostengine")
