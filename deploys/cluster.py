"""The whole cluster: what jobs count on, the heads, then the workers that depend on them."""

from pyinfra import host, local

from lockstep.plan import NodePlan
from lockstep.spec import Role
from roles import barrier, node_check, packages, pyxis

plan: NodePlan = host.data.plan

if plan.role is Role.WORKER:
    packages.apply(plan=plan)
    node_check.apply(plan=plan)
    pyxis.apply(plan=plan)
barrier.reached(name="Workers have what the controller will name")
local.include("./head.py")
barrier.reached(name="Heads are done")
local.include("./worker.py")
