"""Kubernetes' settings for a node, taken from the description and never from a node.

Keys: kubeadm.k8s.io/v1beta4 and kubelet.config.k8s.io/v1beta1 (reference of Kubernetes 1.34).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lockstep.plan.declaration import Condition, File, Unit
from lockstep.plan.kubernetes_operator import operator_labels
from lockstep.spec import Service
from lockstep.spec.kubernetes import PACKAGES, Kubernetes

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan
    from lockstep.secrets import Secrets

FOLDER = "/etc/kubernetes"
PKI = f"{FOLDER}/pki"
ADMIN_CONF = f"{FOLDER}/admin.conf"
"""The kubeconfig of the cluster's administrator, on the nodes of the control plane."""
KUBECTL = f"kubectl --kubeconfig {ADMIN_CONF} --request-timeout=20s"
"""kubectl as the administrator; a request ends after 20 s."""
KUBELET_CONF = f"{FOLDER}/kubelet.conf"
"""The kubeconfig of a kubelet that has joined."""
CORDONED = "lockstep/cordoned"
"""Annotation of a Node that Lockstep has cordoned; its value is the reason."""
KUBEADM_CONFIG = f"{FOLDER}/lockstep-kubeadm.yaml"
KUBELET_DROP_INS = f"{FOLDER}/kubelet.conf.d"
"""The kubelet reads these files after kubeadm's, in the order of their names (--config-dir)."""
KUBELET_UNIT_DROP_IN = "/etc/systemd/system/kubelet.service.d/50-lockstep.conf"
KUBELET_STATE = "/usr/local/libexec/lockstep/kubelet-state"
"""Removes what the kubelet kept of CPUs and memory, where no container has any of them."""
STATE = "/var/lib/lockstep/kubernetes"
BEGUN = f"{STATE}/begun"
"""Exists while kubeadm makes this node a member; a run that finds it makes kubeadm start anew."""
DONE = f"{STATE}/done"
"""Exists once kubeadm has made this node a member, and has the address of the API server then."""
MANIFESTS = f"{FOLDER}/manifests"
"""Manifests of the static pods, which the kubelet starts."""
STOPPED = f"{STATE}/stopped"
"""Folder of the manifests that deploys/restore_etcd.py takes away meanwhile."""
RESTORING = f"{STOPPED}/etcd.yaml"
"""Exists while deploys/restore_etcd.py restores a snapshot on this node."""
ETCD_DATA = "/var/lib/etcd"
"""Data of etcd, which its container has at the same path (kubeadm v1beta4, dataDir)."""
JOIN_CONFIG = "/run/lockstep/kubeadm-join.yaml"
"""kubeadm's file with the token of a node, while the node joins."""
OF_A_MEMBER = (
    KUBELET_CONF,
    "/var/lib/kubelet/config.yaml",
    f"{MANIFESTS}/kube-apiserver.yaml",
    f"{ETCD_DATA}/member",
)
"""A node that belongs to a cluster has one of these; ``kubeadm reset`` deletes them all (kubeadm,
reset/cleanupnode.go, removeetcdmember.go)."""
MEMBERSHIP = (BEGUN, DONE, RESTORING, JOIN_CONFIG, *OF_A_MEMBER)
"""The paths that tell whether kubeadm must do something on a node."""
SNAPSHOTS = "/var/lib/lockstep/etcd-snapshots"
SOCKET = "unix:///run/containerd/containerd.sock"
CRICTL = f"crictl --config /dev/null --runtime-endpoint {SOCKET}"
"""crictl, which would warn that it has no configuration file (docs/crictl.md of cri-tools)."""
EVICTION_MIB = 100
"""Memory at which the kubelet evicts pods; the kubelet's own default (memory.available)."""
CERTS_D = "/etc/containerd/certs.d"
TIMEOUTS = {
    "controlPlaneComponentHealthCheck": "90s",
    "kubeletHealthCheck": "45s",
    "kubernetesAPICall": "30s",
    "etcdAPICall": "90s",
    "tlsBootstrap": "60s",
    "discovery": "60s",
}
"""How long kubeadm waits (v1beta4, Timeouts); its own defaults are one to five minutes."""
SANDBOX_IMAGE = "registry.k8s.io/pause"
CNI_PROGRAMS = "/opt/cni/bin"
"""Where the package kubernetes-cni has the plugins."""
AUTHORITIES = ("ca", "front-proxy-ca", "etcd/ca")
SHARED = (
    *(f"{name}.{kind}" for name in AUTHORITIES for kind in ("crt", "key")),
    "sa.pub",
    "sa.key",
)
"""Files below PKI that all nodes of the control plane share (Kubernetes, PKI certificates and
requirements)."""
ROUTES_UNIT = "lockstep-pod-routes.service"
"""Makes the routes to the pods of other nodes at boot."""
ETCD_PKI = f"{PKI}/etcd"
ETCD_PEER_PORT = 2380
"""Port of etcd for its other members (kubeadm, constants.go: EtcdListenPeerPort)."""
KUBELET_PORT = 10250
"""KubeletConfiguration, port."""


def _read_by_kubelet(plan: NodePlan) -> tuple[str, ...]:
    paths = plan.system.paths("kubernetes_node")
    return tuple(one for one in paths if "kubelet" in one or one.endswith("resolv.conf"))


KUBELET = Unit(
    name="kubelet.service",
    program="/usr/bin/kubelet",
    reads=_read_by_kubelet,
    reads_own_files=False,
    port=lambda plan: KUBELET_PORT,
    runs_jobs=True,
)
"""The unit of a node that has joined; kubeadm starts it first."""


@dataclass(frozen=True)
class KubernetesPlan:
    """What the files of one node of Kubernetes contain."""

    settings: Kubernetes
    address: str
    """The node's own address."""
    endpoint: str
    """Address and port of the API server for all nodes."""
    cgroup_driver: str
    """"systemd", or "cgroupfs" where the machine's control groups have no controllers."""
    confines: bool
    """Whether pods can get CPUs and memory of their own: the machine has cgroup v2."""
    own_swap: bool
    """Whether swap is the machine's own: one that shares a kernel sees the host's."""
    reserved_cpus: str
    """The housekeeping CPUs (reservedSystemCPUs)."""
    reserved_memory_mib: Mapping[int, int]
    """NUMA node -> memory that pods do not get; their sum is that of systemReserved and of the
    threshold for evictions, as the static memory manager demands."""
    system_reserved_mib: int
    ignored_preflight: tuple[str, ...]
    """kubeadm's tests of the machine that must not end it (ignorePreflightErrors)."""
    labels: Mapping[str, str]
    """Labels of the Node object that the plan sets."""
    first: str
    """Address of the head on which the cluster is made."""
    routes: tuple[tuple[str, str], ...]
    """Network of the pods of another node, and the address of that node."""


def authority_files() -> tuple[File, ...]:
    """Return the certificate authorities and the keys that all nodes of the control plane share."""
    return tuple(
        File(path=f"{PKI}/{name}", mode="600", secret=True, secret_content=partial(_shared, name))
        for name in SHARED
    )


PROMETHEUS_USER = "lockstep-prometheus"
"""The user that may read metrics, and nothing else."""
PROMETHEUS_FILES = {
    name: f"/etc/prometheus/kubernetes/{name}"
    for name in ("ca.crt", "prometheus.crt", "prometheus.key")
}
"""Secret of Kubernetes -> its file for Prometheus, which reads metrics with it."""


def prometheus_files(wanted: Condition) -> tuple[File, ...]:
    """Return the files with which Prometheus logs in to kubelets and to the API server.

    Args:
        wanted: which nodes with Prometheus get them.
    """
    return tuple(
        File(
            path=path,
            mode="600",
            owner="prometheus:prometheus",
            secret=True,
            secret_content=partial(_shared, name),
            wanted=wanted,
        )
        for name, path in PROMETHEUS_FILES.items()
    )


def _shared(name: str, secrets: Secrets) -> bytes | None:
    return secrets.kubernetes.get(name)


def plan(node: NodePlan) -> KubernetesPlan:
    """Return the settings of a node.

    Raises:
        LookupError: the node does not belong to Kubernetes.
    """
    settings = node.spec.kubernetes
    if settings is None or not node.runs_kubelet:
        raise LookupError(f"{node.name} does not belong to Kubernetes")
    hardware = node.hardware.hardware
    confines = hardware.cgroup == "v2"
    return KubernetesPlan(
        settings=settings,
        address=node.address,
        endpoint=endpoint(node, settings),
        cgroup_driver="systemd" if confines else "cgroupfs",
        confines=confines,
        own_swap=hardware.boot_loader != "none",
        reserved_cpus=node.hardware.cpu.housekeeping,
        reserved_memory_mib=_spread(settings.system_memory_mib, hardware.numa_nodes),
        system_reserved_mib=settings.system_memory_mib - EVICTION_MIB,
        # It looks for the controllers of cgroups.
        ignored_preflight=() if confines else ("SystemVerification",),
        labels={
            "lockstep/hardware-class": node.hardware.name,
            **(operator_labels(node) if settings.gpus.deploy == "operator" else {}),
        },
        first=first_control_plane(node).address,
        routes=tuple(
            (str(other.node.pods), other.address)
            for other in node.cluster.nodes.values()
            if other.runs_kubelet and other.node.pods is not None and other.name != node.name
        ),
    )


def routed(node: NodePlan) -> bool:
    """Return whether Lockstep makes the network of the pods on a node."""
    return node.spec.kubernetes is not None and node.spec.kubernetes.network == "routed"


def etcdctl(program: str = "etcdctl") -> str:
    """Return a shell command that runs a program of etcd's container; {address} is the node's own.

    The certificate is the one of the container's own health check (kubeadm, phases/etcd).
    """
    return (
        f"{CRICTL} exec $({CRICTL} ps --state Running --name '^etcd$' --quiet) {program} "
        f"--endpoints=https://{{address}}:2379 --cacert={ETCD_PKI}/ca.crt "
        f"--cert={ETCD_PKI}/healthcheck-client.crt --key={ETCD_PKI}/healthcheck-client.key"
    )


def endpoint(node: NodePlan, settings: Kubernetes) -> str:
    """Return the address and port of the API server: the virtual address, or that of the head."""
    address = str(settings.virtual_address or first_control_plane(node).address)
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{settings.api_port}"


def control_planes(node: NodePlan) -> tuple[NodePlan, ...]:
    """Return the nodes that run the control plane, in the order of the description."""
    made = node.cluster.made
    if control_planes not in made:
        made[control_planes] = tuple(
            one for one in node.cluster.nodes.values() if one.runs(Service.KUBERNETES_CONTROL_PLANE)
        )
    found: tuple[NodePlan, ...] = made[control_planes]
    return found


def first_control_plane(node: NodePlan) -> NodePlan:
    """Return the node on which the cluster is made."""
    return control_planes(node)[0]


def packages(node: NodePlan) -> dict[str, str]:
    """Return the packages of Kubernetes that have its version -> pattern of their version."""
    settings = node.spec.kubernetes
    if settings is None or not node.runs_kubelet:
        return {}
    return dict.fromkeys(PACKAGES, f"{settings.version}-*")


def _spread(total: int, numa_nodes: int) -> dict[int, int]:
    each, rest = divmod(total, numa_nodes)
    return {node: each + (rest if node == 0 else 0) for node in range(numa_nodes)}
