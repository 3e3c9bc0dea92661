"""Remove what is left over: what Lockstep wrote on a node and the plan has no longer."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.steps import removal

plan: NodePlan = host.data.plan

removal.apply(plan=plan)
