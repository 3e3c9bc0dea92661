"""The whole cluster: heads first, then the workers that depend on them.

What jobs count on goes the other way: workers have it before the controller names it.
"""

from pathlib import Path

from pyinfra import host, local

from lockstep.plan import NodePlan
from lockstep.roles import node_check, pyxis
from lockstep.roles.steps import barrier
from lockstep.spec import Role

plan: NodePlan = host.data.plan
# "./head.py" would be beside the file that pyinfra began or ended last, for whatever host.
HERE = Path(__file__).resolve().parent

if plan.role is Role.WORKER:
    node_check.program(plan=plan)
barrier.reached(name="Workers have the node check's program")
local.include(str(HERE / "head.py"))
barrier.reached(name="Heads are done")
local.include(str(HERE / "worker.py"))
barrier.reached(name="Workers are done")
if plan.role is Role.HEAD:
    pyxis.apply(plan=plan)
