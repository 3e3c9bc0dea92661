"""The control plane of Kubernetes on a head: kubeadm makes it, or joins it to the first one.

Owns     the cluster's certificate authorities, kubeadm's configuration, what API servers read, and
         the kubelet, which runs etcd, the API server, the controller manager and the scheduler as
         static pods.
Restart  the kubelet when its files or its program change; static pods keep running. A static pod
         when kubeadm's configuration gives it another manifest, on one head after the other.
"""

from __future__ import annotations

from lockstep.facts.files import existing
from lockstep.facts.kubernetes import static_pods
from lockstep.plan.declaration import Declaration, File
from lockstep.plan.kubernetes import (
    ADMIN_CONF,
    KUBEADM_CONFIG,
    KUBELET,
    MEMBERSHIP,
    SOCKET,
    TIMEOUTS,
    authority_files,
)
from lockstep.plan.kubernetes_api import VALUES, api_server_files
from lockstep.spec import Service

ROLE = Declaration(
    name="kubernetes_control_plane",
    title="Kubernetes control plane",
    when=lambda plan: plan.runs(Service.KUBERNETES_CONTROL_PLANE),
    after=("kubernetes_node", "kubernetes_virtual_address", "time_sync"),
    files=(
        *authority_files(),
        *api_server_files(),
        File(
            path=KUBEADM_CONFIG,
            template="kubernetes_control_plane/kubeadm.yaml.j2",
            own=True,
            mode="600",
            validate="kubeadm config validate --config {new} >/dev/null",
            values={"socket": SOCKET, "timeouts": TIMEOUTS, **VALUES},
        ),
    ),
    units=(KUBELET,),
    operations="lockstep.roles.operations.kubernetes_control_plane",
    asks=lambda plan: [existing((*MEMBERSHIP, ADMIN_CONF)), static_pods()],
)
