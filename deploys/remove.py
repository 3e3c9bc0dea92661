"""Remove from each node what Lockstep wrote there earlier and the plan no longer contains."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.steps import removal

plan: NodePlan = host.data.plan

removal.apply(plan=plan)
