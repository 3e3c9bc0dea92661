"""Deploy the whole cluster: heads first, then the workers, which depend on them.

Some parts must be on the workers before the controller uses them. Each role declares which of its
stages run before the heads are deployed and which run after the workers.
"""

from pathlib import Path

from pyinfra import host, local

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Phase
from lockstep.roles.operations.apply import apply_roles
from lockstep.roles.steps import canary, secrets

plan: NodePlan = host.data.plan
# pyinfra resolves "./head.py" relative to the file that it ran last, possibly for another host.
HERE = Path(__file__).resolve().parent

secrets.made(plan)
canary.begins(plan)
apply_roles(plan, plan.roles, Phase.BEFORE_HEADS)
canary.checked(name="Workers have the node check's program", plan=plan)
local.include(str(HERE / "head.py"))
local.include(str(HERE / "worker.py"))
apply_roles(plan, plan.roles, Phase.AFTER_WORKERS)
canary.checked(name="Heads know the workers", plan=plan)
