"""Break the lock of a run that was ended on another machine, such as one that has lost power."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.steps import unlock

plan: NodePlan = host.data.plan

unlock.apply(plan=plan)
