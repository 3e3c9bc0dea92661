"""The node judges itself: Slurm's health check, prolog and epilog, and a timer for metrics.

Owns     its program, what it judges by, its timer.
Restart  only of the timer; the program is read anew with every run.
"""

from __future__ import annotations

from lockstep.facts.slurm import HEALTH_CHECK
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.software import NODE_CHECK_TIMER
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.service import service


@role("Node check, first")
def program(plan: NodePlan) -> None:
    """Install the program that slurm.conf names; it changes nothing without what it judges by."""
    if "node_check" not in plan.capabilities:
        return
    files = tuple(file for file in managed(plan, None, "node_check") if file.path == HEALTH_CHECK)
    managed_files(name="Program", files=files)


@role("Node check")
def apply(plan: NodePlan) -> None:
    """Install it and start its timer."""
    if "node_check" not in plan.capabilities:
        return
    files = managed(plan, None, "node_check")
    managed_files(name="Files", files=files)
    units = tuple(file.path for file in files if file.path.startswith("/etc/systemd/system/"))
    service(name="Timer", unit=NODE_CHECK_TIMER, files=units)
