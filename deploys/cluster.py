"""Deploy the whole cluster: heads first, then the workers, which depend on them.

Some parts must be on the workers before the controller uses them. Each role declares which of its
stages run before the heads are deployed and which run after the workers.
"""

from pathlib import Path

from pyinfra import host, local

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Phase
from lockstep.roles.operations.apply import apply_roles
from lockstep.roles.steps import barrier, secrets

plan: NodePlan = host.data.plan
# pyinfra resolves "./head.py" relative to the file that it ran last, possibly for another host.
HERE = Path(__file__).resolve().parent

secrets.made(plan)
apply_roles(plan, plan.roles, Phase.BEFORE_HEADS)
barrier.reached(name="Workers have the node check's program")
local.include(str(HERE / "head.py"))
barrier.reached(name="Heads are done")
local.include(str(HERE / "worker.py"))
barrier.reached(name="Workers are done")
apply_roles(plan, plan.roles, Phase.AFTER_WORKERS)
