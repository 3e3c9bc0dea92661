"""The whole cluster: heads first, then the workers that depend on them.

What jobs count on goes the other way: workers have it before the controller names it.
"""

from pyinfra import host, local

from lockstep.plan import NodePlan
from lockstep.spec import Role
from roles import barrier, node_check, pyxis

plan: NodePlan = host.data.plan

if plan.role is Role.WORKER:
    node_check.program(plan=plan)
barrier.reached(name="Workers have the node check's program")
local.include("./head.py")
barrier.reached(name="Heads are done")
local.include("./worker.py")
barrier.reached(name="Workers are done")
if plan.role is Role.HEAD:
    pyxis.apply(plan=plan)
