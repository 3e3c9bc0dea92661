"""What every node of Kubernetes has before it joins: programs, kubelet's settings, pods' network.

Owns     the packages of Kubernetes, the kubelet's arguments and its drop-ins, the CNI configuration
         and the routes to the pods of other nodes, and the registry mirror of containerd.
Restart  the routes are made again if they differ; kubernetes_worker and
         kubernetes_control_plane restart the kubelet, which keeps containers running.
"""

from __future__ import annotations

from lockstep.facts.files import file_states
from lockstep.facts.kubernetes import pod_routes, swap_areas
from lockstep.plan import NodePlan
from lockstep.plan.declaration import (
    SHELL,
    Contribution,
    Declaration,
    File,
    Unit,
    drop_in,
    whole_unit,
)
from lockstep.plan.kubernetes import (
    CERTS_D,
    DONE,
    KUBELET_CONF,
    KUBELET_DROP_INS,
    KUBELET_STATE,
    KUBELET_UNIT_DROP_IN,
    ROUTES_UNIT,
    routed,
)

ROUTES = "/etc/lockstep/pod-routes"
ROUTES_PROGRAM = "/usr/local/libexec/lockstep/pod-routes"
PROTOCOL = 76
"""Routing protocol of these routes (ip-route(8)): a number that iproute2 gives no name
(etc/iproute2/rt_protos of iproute2 6.15)."""


def _forwarding(plan: NodePlan) -> dict[str, str]:
    """Nodes route between their pods and the network (Kubernetes, container runtimes)."""
    key = "net.ipv6.conf.all.forwarding" if plan.address_family == "ipv6" else "net.ipv4.ip_forward"
    return {key: "1"}


ROLE = Declaration(
    name="kubernetes_node",
    title="Kubernetes node",
    when=lambda plan: plan.runs_kubelet,
    after=("container_runtime", "os_settings", "network"),
    packages={"": ("kubelet", "kubeadm", "kubectl", "kubernetes-cni", "cri-tools", "iptables")},
    files=(
        File(
            path=f"{KUBELET_DROP_INS}/50-lockstep.conf",
            template="kubernetes_node/kubelet.yaml.j2",
        ),
        File(
            path="/etc/kubernetes/lockstep-resolv.conf", template="kubernetes_node/resolv.conf.j2"
        ),
        File(
            path="/etc/default/kubelet",
            template="kubernetes_node/default.j2",
            own=True,
            validate=SHELL,
        ),
        File(
            path="/etc/cni/net.d/10-lockstep.conflist",
            template="kubernetes_node/cni.json.j2",
            own=True,
            validate="python3 -m json.tool {new} >/dev/null",
            wanted=routed,
        ),
        File(
            path=KUBELET_STATE,
            template="kubernetes_node/kubelet-state.sh.j2",
            mode="755",
            validate=SHELL,
        ),
        File(
            path=KUBELET_UNIT_DROP_IN,
            template="kubernetes_node/kubelet.service.conf.j2",
            validate=drop_in("kubelet.service"),
            values={"state_program": KUBELET_STATE},
        ),
        File(path=ROUTES, template="kubernetes_node/routes.j2", own=True, wanted=routed),
        File(
            path=ROUTES_PROGRAM,
            template="kubernetes_node/pod-routes.sh.j2",
            mode="755",
            validate=SHELL,
            wanted=routed,
            values={"protocol": PROTOCOL},
        ),
        File(
            path=f"/etc/systemd/system/{ROUTES_UNIT}",
            template=f"kubernetes_node/{ROUTES_UNIT}.j2",
            validate=whole_unit(ROUTES_UNIT),
            wanted=routed,
        ),
        File(
            path=f"{CERTS_D}/_default/hosts.toml",
            template="kubernetes_node/hosts.toml.j2",
            wanted=lambda plan: bool(plan.spec.kubernetes and plan.spec.kubernetes.registry_mirror),
        ),
    ),
    units=(
        Unit(
            name=ROUTES_UNIT,
            reads=lambda plan: (ROUTES, ROUTES_PROGRAM, f"/etc/systemd/system/{ROUTES_UNIT}"),
            reads_own_files=False,
            wanted=routed,
        ),
    ),
    # A kubelet does not start while swap is in use (KubeletConfiguration, failSwapOn).
    contributes=Contribution(sysctl=_forwarding, masked_units=lambda plan: ("swap.target",)),
    operations="lockstep.roles.operations.kubernetes_node",
    asks=lambda plan: [
        file_states((DONE, KUBELET_CONF)),
        *([pod_routes()] if routed(plan) else ()),
        *([swap_areas()] if plan.kubernetes.own_swap else ()),
    ],
    unchecked={
        "swap_off": "the fingerprint compares the swap areas of nodes; a kubelet that does "
        "not start is found"
    },
)
