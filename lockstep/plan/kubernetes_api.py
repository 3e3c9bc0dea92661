"""The API servers of Kubernetes: encryption of Secrets, the audit log, and their static pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockstep.plan.declaration import File
from lockstep.plan.kubernetes import FOLDER
from lockstep.plan.kubernetes_objects import HEADER

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan
    from lockstep.secrets import Secrets

API_SERVER = f"{FOLDER}/lockstep-apiserver"
"""Folder with what API servers read. They have the folder, because files in it are replaced."""
ENCRYPTION = f"{API_SERVER}/encryption.yaml"
AUDIT = f"{API_SERVER}/audit.yaml"
AUDIT_LOGS = "/var/log/kubernetes"
STATIC_PODS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The pods whose manifests kubeadm writes from ``ClusterConfiguration``, besides etcd."""
VALUES = {
    "encryption": ENCRYPTION,
    "audit": AUDIT,
    "audit_logs": AUDIT_LOGS,
    "api_server": API_SERVER,
}
"""Values for the template of kubeadm's configuration."""


def _audited(plan: NodePlan) -> bool:
    return plan.spec.kubernetes is not None and plan.spec.kubernetes.audit is not None


def _encryption(secrets: Secrets) -> bytes | None:
    """Return the EncryptionConfiguration (apiserver.config.k8s.io/v1), in JSON, which is YAML, too.

    The first provider writes; what was written before Secrets were encrypted, "identity" reads.
    """
    key = secrets.kubernetes.get("encryption-key")
    if key is None:
        return None
    secretbox = {"keys": [{"name": "lockstep", "secret": key.decode("ascii")}]}
    providers: list[dict[str, object]] = [{"secretbox": secretbox}, {"identity": {}}]
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers}],
    }
    return f"{HEADER}{json.dumps(document, indent=2)}\n".encode("ascii")


def api_server_files() -> tuple[File, ...]:
    """Return the files that API servers read."""
    return (
        File(
            path=ENCRYPTION,
            mode="600",
            secret=True,
            secret_content=_encryption,
        ),
        File(path=AUDIT, template="kubernetes_control_plane/audit.yaml.j2", wanted=_audited),
    )
