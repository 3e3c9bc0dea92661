"""Upgrade Kubernetes to the version of the description: heads one by one, then the workers."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.operations.apply import apply_roles
from lockstep.roles.steps import barrier, upgrade
from lockstep.spec import NodeRole

plan: NodePlan = host.data.plan

if plan.runs_kubelet:
    upgrade.allowed(name="One minor release at a time", plan=plan)
    # The repository and the pins of the new version; the packages themselves wait for their turn.
    apply_roles(plan, ("packages",))
barrier.reached(name="Repositories are there")
if plan.runs_kubelet and plan.role is NodeRole.HEAD:
    upgrade.upgraded(name="Control plane", plan=plan)
barrier.reached(name="Heads are upgraded")
if plan.runs_kubelet and plan.role is NodeRole.WORKER:
    upgrade.upgraded(name="Workers", plan=plan)
