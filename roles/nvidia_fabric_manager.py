"""NVIDIA's fabric manager, where NVSwitches are: without it CUDA ends with error 802.

Owns     its unit.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.nvidia import FABRIC_MANAGER
from lockstep.roles._daemon import daemon
from lockstep.roles._role import role


@role("Fabric manager")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    daemon(
        plan, "nvidia_fabric_manager", FABRIC_MANAGER, "/usr/bin/nv-fabricmanager", restart=False
    )
