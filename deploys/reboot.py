"""Bring into force what waits for a reboot: workers a few at a time, then the heads one by one."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.steps import barrier, reboot
from lockstep.spec import Role

plan: NodePlan = host.data.plan

if plan.role is Role.WORKER:
    reboot.apply(plan=plan)
barrier.reached(name="Workers are done")
if plan.role is Role.HEAD:
    reboot.apply(plan=plan)
