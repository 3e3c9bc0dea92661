"""NVIDIA's fabric manager, where NVSwitches are: without it CUDA ends with error 802.

Owns     its unit.
"""

from __future__ import annotations

from pyinfra.api import deploy

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import FABRIC_MANAGER
from roles._files import managed_files
from roles._service import service


@deploy("Fabric manager")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    if "nvidia_fabric_manager" not in plan.capabilities:
        return
    files = managed(plan, None, "nvidia_fabric_manager")
    managed_files(name="Files", files=files)
    service(
        name="Fabric manager",
        unit=FABRIC_MANAGER,
        files=(*(f.path for f in files), "/usr/bin/nv-fabricmanager"),
    )
