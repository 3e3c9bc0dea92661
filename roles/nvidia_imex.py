"""NVIDIA's IMEX daemon, where NVLink goes beyond the node: it shares memory between nodes.

Owns     the list of nodes, its unit.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.nvidia import IMEX
from lockstep.roles._daemon import daemon
from lockstep.roles._role import role


@role("IMEX")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    daemon(plan, "nvidia_imex", IMEX, "/usr/bin/nvidia-imex", restart=False)
