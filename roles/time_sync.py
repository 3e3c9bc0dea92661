"""chrony on every node, and a gate before what needs the right time.

Owns     chrony's configuration and unit.
Gate     munge refuses credentials from a clock that is off (munged(8): 300 s), so a node whose
         clock does not follow fails there, and munge and Slurm are not reached. It stands as late
         as it may: chronyd's first samples take seconds, which other roles can use.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.service import service
from lockstep.roles.operations.time_sync import clock_is_right


@role("Time sync")
def apply(plan: NodePlan) -> None:
    """Configure chrony and run it."""
    if "time_sync" not in plan.capabilities:
        return
    files = managed(plan, None, "time_sync")
    managed_files(name="Files", files=files)
    service(
        name="chrony",
        unit="chrony.service",
        files=(*(f.path for f in files), "/usr/sbin/chronyd"),
    )


@role("Time sync")
def gate(plan: NodePlan) -> None:
    """Wait for the clock: what is set up before this does not need it."""
    if "time_sync" not in plan.capabilities:
        return
    clock_is_right(
        name="Gate: the clock is right",
        reference=plan.time.reference,
        max_offset_s=plan.spec.time.max_offset_s,
    )
