"""Every package of the node, at its locked version, in one transaction; before any other role.

Owns     apt's pins, holds and further repositories, and the policy that keeps services from
         starting while packages arrive.
Restart  nothing: services are started by the roles that own them.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.packages import locked_packages


@role("Packages")
def apply(plan: NodePlan) -> None:
    """Install what the node's capabilities need."""
    if "packages" not in plan.capabilities:
        return
    managed_files(name="Repositories, pins and policy", files=managed(plan, None, "packages"))
    locked_packages(
        name="Install at locked versions",
        names=plan.packages,
        versions=plan.versions,
        held=plan.held,
        driver=plan.driver,
    )
