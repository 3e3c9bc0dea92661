"""Prometheus' exporter for GPUs: asks the host engine, on the management address only.

Owns     its arguments and unit.
"""

from __future__ import annotations

from pyinfra.api import deploy

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import DCGM_EXPORTER
from roles._files import managed_files
from roles._service import service


@deploy("DCGM exporter")
def apply(plan: NodePlan) -> None:
    """Configure and run it."""
    if "dcgm_exporter" not in plan.capabilities:
        return
    files = managed(plan, None, "dcgm_exporter")
    managed_files(name="Files", files=files)
    service(
        name="Exporter",
        unit=DCGM_EXPORTER,
        files=(*(f.path for f in files), "/usr/bin/dcgm-exporter"),
    )
