"""The whole cluster: heads first, then the workers that depend on them.

What jobs count on goes the other way: workers have it before the controller names it. Roles declare
which of their stages come before the heads, and which after the workers.
"""

from pathlib import Path

from pyinfra import host, local

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Phase
from lockstep.roles.operations.apply import apply_roles
from lockstep.roles.steps import barrier

plan: NodePlan = host.data.plan
# "./head.py" would be beside the file that pyinfra began or ended last, for whatever host.
HERE = Path(__file__).resolve().parent

apply_roles(plan, plan.capabilities, Phase.BEFORE_HEADS)
barrier.reached(name="Workers have the node check's program")
local.include(str(HERE / "head.py"))
barrier.reached(name="Heads are done")
local.include(str(HERE / "worker.py"))
barrier.reached(name="Workers are done")
apply_roles(plan, plan.capabilities, Phase.AFTER_WORKERS)
