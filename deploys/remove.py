"""Remove everything that Lockstep wrote to the nodes and that is no longer in the plan."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.steps import removal

plan: NodePlan = host.data.plan

removal.apply(plan=plan)
