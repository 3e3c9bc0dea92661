"""The recorded machines as a cluster of Kubernetes: what the lab's API server and nodes say."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from lockstep.checks.context import Context
from lockstep.inventory import planned
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes_releases import releases
from lockstep.roles import declared
from lockstep.spec import load
from lockstep.spec.names import cpus
from tests.checks import recorded

VERSION = "1.34.4"
REGISTRY = "registry.k8s.io"


def description() -> dict[str, Any]:
    """Return the recorded cluster's description, with Kubernetes instead of Slurm."""
    found = copy.deepcopy(recorded.DESCRIPTION)
    found["scheduler"] = {
        "kind": "kubernetes",
        "version": VERSION,
        "pod_prefix": "fd00:1:0:ffff::/64",
        "service_prefix": "fd00:1:0:fffe::/108",
        "images": {"etcd": "3.6.5-0"},
    }
    head, worker = found["nodes"]
    head |= {"runs": ["kubernetes_control_plane", "prometheus"], "pods": "fd00:1:0:ffff:1::/80"}
    worker |= {"pods": "fd00:1:0:ffff:101::/80"}
    software = found["software"]
    software["versions"] = {}
    software["containers"] = {"engines": ["containerd"]}
    return found


@cache
def consistent() -> Context:
    """Return the cluster in which nothing differs."""
    cluster, problems = load(description(), declared())
    assert cluster is not None, problems
    plan = planned(cluster, inventory="inventories/recorded.py")
    return recorded.context(plan, {name: raw_record(node) for name, node in plan.nodes.items()})


def raw_record(node: NodePlan) -> dict[str, Any]:
    """Return the record of a node, with the readings that the lab's nodes have."""
    record = recorded.raw_record(node)
    head = not node.is_worker
    nodes = node.cluster.nodes.values()
    changes: dict[str, Any] = {
        "kubernetes.kube_proxy": "nftables",
        "kubernetes.routes": dict(node.kubernetes.routes),
        "kubernetes.certificates": {
            "/etc/kubernetes/pki/ca.crt": 3649,
            "/var/lib/kubelet/pki/kubelet-client-current.pem": 364,
            **({"/etc/kubernetes/admin.conf": 364} if head else {}),
        },
        "kubernetes.static_pods": (
            {
                "etcd": [f"{REGISTRY}/etcd:3.6.5-0"],
                **{
                    name: [f"{REGISTRY}/{name}:v{VERSION}"]
                    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
                },
            }
            if head
            else {}
        ),
        **({} if head else {"kubernetes.gpus": {f"gpu{n}": "healthy" for n in range(8)}}),
        **({"kubernetes.control_plane": "ready"} if head else {}),
        "kubernetes.manifests": {},
        "kubernetes.objects": {},
        "kubernetes.unavailable": {},
        "kubernetes.releases": {one.source: one.planned for one in releases(node)},
        "services.cpu_share": {"kubelet.service": 3.5},
    }
    if head:
        changes["kubernetes.nodes"] = {one.name: entry(one) for one in nodes}
        changes["kubernetes.kubelet_config"] = {one.name: kubelet(one) for one in nodes}
    for name, value in changes.items():
        record["readings"][name] = {"value": value}
    return record


def entry(node: NodePlan) -> dict[str, Any]:
    """Return what the API server says of a node that is as planned."""
    hardware = node.hardware
    reserved = 2 if node.is_worker else 1  # CPUs 0 and 8; a head has none of its own
    labels = {"kubernetes.io/hostname": node.name, "lockstep/hardware-class": hardware.name}
    taints = []
    if not node.is_worker:
        labels["node-role.kubernetes.io/control-plane"] = ""
        taints = ["node-role.kubernetes.io/control-plane=:NoSchedule"]
    allocatable = {
        "cpu": str(hardware.hardware.cpus - reserved),
        "hugepages-1Gi": "1Gi" if node.is_worker else "0",
        "hugepages-2Mi": "2Gi" if node.is_worker else "0",
        "memory": "60000000Ki",
        "pods": "110",
        **({"nvidia.com/gpu": "8"} if node.is_worker else {}),
    }
    return {
        "conditions": {"MemoryPressure": "False", "DiskPressure": "False", "Ready": "True"},
        "reasons": {},
        "unschedulable": False,
        "taints": taints,
        "labels": labels,
        "annotations": {},
        "version": f"v{VERSION}",
        "runtime": "containerd://1.7.24",
        "allocatable": allocatable,
        "capacity": {**allocatable, "cpu": str(hardware.hardware.cpus)},
    }


def kubelet(node: NodePlan) -> dict[str, Any]:
    """Return the running configuration of a kubelet, in the form of /configz."""
    plan = node.kubernetes
    found: dict[str, Any] = {
        "cgroupDriver": "systemd",
        "failSwapOn": True,
        "maxPods": 110,
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "containerLogMaxSize": "50Mi",
        "containerLogMaxFiles": 5,
        "rotateCertificates": True,
        "resolvConf": "/etc/kubernetes/lockstep-resolv.conf",
        "cpuManagerPolicy": "static",
        "topologyManagerPolicy": "restricted",
        "memoryManagerPolicy": "Static",
        "systemReserved": {"memory": "924Mi"},
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "10%",
            "nodefs.inodesFree": "5%",
            "imagefs.available": "15%",
            "imagefs.inodesFree": "5%",
        },
        # The API shows a quantity in the largest unit that fits.
        "reservedMemory": [
            {"numaNode": numa, "limits": {"memory": "1Gi" if mib == 1024 else f"{mib}Mi"}}
            for numa, mib in plan.reserved_memory_mib.items()
        ],
        "address": "0.0.0.0",
    }
    if plan.reserved_cpus:
        # As a worker with a kernel of its own told it in the lab.
        found["systemReserved"] = {"cpu": str(len(cpus(plan.reserved_cpus))), "memory": "924Mi"}
        return found | {"reservedSystemCPUs": plan.reserved_cpus}
    return found | {"kubeReserved": {"cpu": "1"}}
