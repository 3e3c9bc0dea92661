"""NVIDIA's IMEX daemon, where NVLink goes beyond the node: it shares memory between nodes.

Owns     the list of nodes, its unit.
"""

from __future__ import annotations

from pyinfra.api import deploy

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import IMEX
from roles._files import managed_files
from roles._service import service


@deploy("IMEX")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    if "nvidia_imex" not in plan.capabilities:
        return
    files = managed(plan, None, "nvidia_imex")
    managed_files(name="Files", files=files)
    service(name="IMEX", unit=IMEX, files=(*(f.path for f in files), "/usr/bin/nvidia-imex"))
