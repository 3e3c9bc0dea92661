"""Reboot the nodes that need it: workers a few at a time, then the heads one by one."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.steps import barrier, reboot
from lockstep.spec import NodeRole

plan: NodePlan = host.data.plan

if plan.role is NodeRole.WORKER:
    reboot.apply(plan=plan)
barrier.reached(name="Workers are done")
if plan.role is NodeRole.HEAD:
    reboot.apply(plan=plan)
