"""Operations of the role node_check."""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.slurm_files import HEALTH_CHECK
from lockstep.roles.operations.files import managed_files


def program(plan: NodePlan) -> None:
    """Install the health check that slurm.conf names; it does nothing until its rules exist."""
    files = tuple(file for file in managed(plan, None, "node_check") if file.path == HEALTH_CHECK)
    managed_files(name="Program", files=files)
