"""DCGM's host engine: the one process of a node that asks the boards for metrics.

Owns     its unit.
"""

from __future__ import annotations

from pyinfra.api import deploy

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import DCGM
from roles._files import managed_files
from roles._service import service


@deploy("DCGM")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    if "dcgm" not in plan.capabilities:
        return
    files = managed(plan, None, "dcgm")
    managed_files(name="Files", files=files)
    service(
        name="Host engine", unit=DCGM, files=(*(f.path for f in files), "/usr/bin/nv-hostengine")
    )
