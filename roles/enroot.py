"""enroot: containers without root and without a daemon, with folders of each user alone.

Owns     one drop-in of enroot.conf, the folders that it names, the programs that it calls.
Restart  nothing: enroot reads them at each call.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.enroot import folders_for_all
from lockstep.roles.operations.files import managed_files


@role("enroot")
def apply(plan: NodePlan) -> None:
    """Configure it."""
    if "enroot" not in plan.capabilities:
        return
    managed_files(name="Files", files=managed(plan, None, "enroot"))
    folders_for_all(name="Folders", folders=tuple(plan.job_containers.folders.values()))
