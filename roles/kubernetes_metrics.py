"""kube-state-metrics, and what Prometheus may read in Kubernetes: metrics, and nothing else.

Owns     the manifest with both; the role kubernetes_objects applies it.
Restart  nothing; Kubernetes replaces the pod when its manifest changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File
from lockstep.plan.kubernetes import PROMETHEUS_USER
from lockstep.plan.kubernetes_objects import FOLDER, VALIDATE, applies_objects, manifest
from lockstep.spec import Service

NAME, NAMESPACE, VERSION = "kube-state-metrics", "kube-system", "2.15.0"
IMAGE = f"registry.k8s.io/kube-state-metrics/kube-state-metrics:v{VERSION}"
OBSERVED = {
    "": (
        *("namespaces", "nodes", "persistentvolumeclaims", "pods", "resourcequotas"),
        "services",
    ),
    "apps": ("daemonsets", "deployments", "statefulsets"),
    "batch": ("jobs",),
}
"""API group -> what kube-state-metrics counts (--resources); without Secrets and ConfigMaps, which
it would have to read."""
RBAC = "rbac.authorization.k8s.io"


def _bound(role: str, subject: dict[str, str], name: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def _role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }


def _objects(plan: NodePlan) -> Iterator[dict[str, Any]]:
    """Yield the objects; ports, probes and the user are those of the project's own manifests.

    (kubernetes/kube-state-metrics 2.15.0, examples/standard)
    """
    labels = {"app.kubernetes.io/name": NAME}
    at = {"name": NAME, "namespace": NAMESPACE}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(at)}
    yield _role(
        NAME,
        [
            {"apiGroups": [group], "resources": list(names), "verbs": ["list", "watch"]}
            for group, names in OBSERVED.items()
        ],
    )
    yield _bound(NAME, {"kind": "ServiceAccount", **at}, NAME)
    every = ",".join(sorted(name for names in OBSERVED.values() for name in names))
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": dict(at),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "system-cluster-critical",
                    # It also runs where there are heads only, and leaves the workers to jobs.
                    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
                    "tolerations": [
                        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
                    ],
                    "containers": [
                        {
                            "name": NAME,
                            "image": IMAGE,
                            "args": [f"--resources={every}"],
                            "ports": [
                                {"name": "http-metrics", "containerPort": 8080},
                                {"name": "telemetry", "containerPort": 8081},
                            ],
                            "readinessProbe": {
                                "httpGet": {"path": "/readyz", "port": "telemetry"},
                            },
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["ALL"]},
                                "readOnlyRootFilesystem": True,
                                "runAsNonRoot": True,
                                "runAsUser": 65534,
                                "seccompProfile": {"type": "RuntimeDefault"},
                            },
                        }
                    ],
                },
            },
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": dict(at),
        "spec": {
            "selector": labels,
            "ports": [{"name": "http-metrics", "port": 8080, "targetPort": "http-metrics"}],
        },
    }
    # Kubernetes, Kubelet authentication/authorization: the metrics of a kubelet are nodes/metrics.
    yield _role(
        PROMETHEUS_USER,
        [
            {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            {
                "apiGroups": [""],
                "resources": ["services/proxy"],
                "resourceNames": [f"{NAME}:http-metrics"],
                "verbs": ["get"],
            },
        ],
    )
    user = {"apiGroup": RBAC, "kind": "User", "name": PROMETHEUS_USER}
    yield _bound(PROMETHEUS_USER, user, PROMETHEUS_USER)


ROLE = Declaration(
    name="kubernetes_metrics",
    title="Kubernetes metrics",
    when=lambda plan: (
        applies_objects(plan) and plan.cluster.running(Service.PROMETHEUS) is not None
    ),
    after=("kubernetes_control_plane",),
    files=(
        File(
            path=f"{FOLDER}/metrics.yaml",
            text=lambda plan: manifest(_objects(plan)),
            validate=VALIDATE,
        ),
    ),
)
