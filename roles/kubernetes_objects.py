"""The objects of Kubernetes that the description asks for, on the first node of the control plane.

Owns     the objects with the label app.kubernetes.io/managed-by=lockstep, as the manifests in
         /etc/kubernetes/lockstep have them, and what kubeadm installs: kube-proxy and CoreDNS.
Restart  nothing; Kubernetes replaces the pods of objects that change.
"""

from __future__ import annotations

from lockstep.facts.kubernetes import object_states
from lockstep.plan.declaration import Declaration, Stage
from lockstep.plan.kubernetes_described import described_files
from lockstep.plan.kubernetes_objects import applies_objects, object_sources

ROLE = Declaration(
    name="kubernetes_objects",
    title="Kubernetes objects",
    when=applies_objects,
    after=("kubernetes_control_plane",),
    files=described_files(),
    operations="lockstep.roles.operations.kubernetes_objects",
    stages=(
        # Late: other roles put manifests, too.
        Stage(
            function="applied",
            title="Kubernetes objects",
            after=("kubernetes_objects",),
            late=True,
            asks=lambda plan: [object_states(object_sources(plan))],
        ),
    ),
)
