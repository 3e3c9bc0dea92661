"""Restore all objects of Kubernetes from a snapshot of etcd: --data snapshot=PATH.

PATH is a file on the first head of the control plane. The other heads join it again.
"""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.operations.apply import apply_roles
from lockstep.roles.steps import barrier, restore
from lockstep.spec import Service

plan: NodePlan = host.data.plan

if plan.runs(Service.KUBERNETES_CONTROL_PLANE):
    restore.apply(plan=plan)
barrier.reached(name="etcd has the snapshot")
if plan.runs(Service.KUBERNETES_CONTROL_PLANE):
    apply_roles(plan, ("kubernetes_control_plane",))
