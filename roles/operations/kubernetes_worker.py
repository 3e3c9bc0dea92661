"""Operations of the role kubernetes_worker."""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.roles.operations.declared import keep_units, secrets_of
from lockstep.roles.operations.kubernetes_member import cleared, joined, registered


def apply(plan: NodePlan) -> None:
    """Join the worker to the cluster, and keep its kubelet running with the current files."""
    secrets = secrets_of(plan)
    if secrets is None:
        return
    cleared(name="Interrupted before", plan=plan)
    joined(name="kubeadm join", plan=plan, secrets=secrets)
    keep_units(plan, "kubernetes_worker")
    registered(name="Node object", plan=plan)
