"""A worker of Kubernetes: it joins with a token that lives minutes, and runs the kubelet.

Owns     the kubelet's unit, and the node's membership.
Restart  the kubelet when its files or its program change; pods keep running.
"""

from __future__ import annotations

from lockstep.facts.files import existing
from lockstep.plan.declaration import Declaration
from lockstep.plan.kubernetes import KUBELET, MEMBERSHIP

ROLE = Declaration(
    name="kubernetes_worker",
    title="Kubernetes worker",
    jobs_use=True,
    when=lambda plan: plan.takes_pods,
    after=("kubernetes_node", "time_sync", "kubernetes_control_plane", "node_check", "fabric"),
    units=(KUBELET,),
    operations="lockstep.roles.operations.kubernetes_worker",
    asks=lambda plan: [existing(MEMBERSHIP)],
)
