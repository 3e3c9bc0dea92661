"""Operations of the role kubernetes_control_plane."""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import first_control_plane
from lockstep.roles.operations.declared import keep_units, put_files, secrets_of
from lockstep.roles.operations.kubernetes_certificates import renewed
from lockstep.roles.operations.kubernetes_manifests import as_configured
from lockstep.roles.operations.kubernetes_member import (
    cleared,
    initialised,
    joined,
    registered,
)


def apply(plan: NodePlan) -> None:
    """Make the control plane on the first head, or join this head to it."""
    cleared(name="Interrupted before", plan=plan)
    if not put_files(plan, "kubernetes_control_plane"):
        return
    secrets = secrets_of(plan)
    assert secrets is not None  # put_files has already obtained them
    if first_control_plane(plan).name == plan.name:
        initialised(name="kubeadm init", plan=plan, secrets=secrets)
    else:
        joined(name="kubeadm join", plan=plan, secrets=secrets)
    keep_units(plan, "kubernetes_control_plane")
    # One head after the other: each restarts its API server.
    as_configured(name="Static pods", plan=plan, _serial=True)
    registered(name="Node object", plan=plan)
    renewed(name="Certificates", plan=plan)
