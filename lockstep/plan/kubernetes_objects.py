"""The objects of Kubernetes that Lockstep manages, as manifests on the first control plane.

Every file that a role has below ``FOLDER`` is a manifest, which the role kubernetes_objects
applies after all other roles. To manage objects, a role declares such a file on that node:

    File(path=f"{FOLDER}/gpus.yaml", text=lambda plan: manifest(_objects(plan)),
         validate=VALIDATE, wanted=applies_objects)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lockstep.plan.kubernetes import ADMIN_CONF, KUBEADM_CONFIG, first_control_plane
from lockstep.plan.kubernetes import FOLDER as ETC
from lockstep.spec import Service

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

FOLDER = f"{ETC}/lockstep"
"""Where manifests are; each file below it is applied."""
LABEL = "app.kubernetes.io/managed-by"
OWNER = "lockstep"
"""The value of ``LABEL``, and the field manager. The reader has the same words."""
OF_KUBEADM = f"kubeadm:{KUBEADM_CONFIG}"
"""Asks also for what kubeadm installs with this configuration: kube-proxy and CoreDNS."""
HEADER = "# Managed by Lockstep: edits are overwritten. Change the inventory and deploy again.\n"
VALIDATE = (
    f"kubectl --kubeconfig {ADMIN_CONF} --request-timeout=20s --cache-dir=/run/lockstep/kubectl "
    "create --dry-run=client -f {new} >/dev/null"
)
"""Checks a manifest (``File.validate``) with the types that the API server knows; not for objects
whose type a manifest defines."""

Object = Mapping[str, Any]


def applies_objects(plan: NodePlan) -> bool:
    """Return whether a node has the manifests: the first one that runs the control plane."""
    return (
        plan.runs(Service.KUBERNETES_CONTROL_PLANE)
        and plan.spec.kubernetes is not None
        and first_control_plane(plan).name == plan.name
    )


def manifest(objects: Iterable[Object]) -> str:
    """Return the text of a manifest, in JSON, which is YAML, too. Every object gets the label.

    Args:
        objects: objects of Kubernetes; each has apiVersion, kind and metadata with its name and,
            if it is in one, its namespace.
    """
    document = {"apiVersion": "v1", "kind": "List", "items": [_labelled(one) for one in objects]}
    return f"{HEADER}{json.dumps(document, indent=2)}\n"


def _labelled(one: Object) -> Object:
    about = one["metadata"]
    return {**one, "metadata": {**about, "labels": {**about.get("labels", {}), LABEL: OWNER}}}


def manifests(plan: NodePlan) -> tuple[str, ...]:
    """Return the paths of all manifests of a node, in the order in which they are applied."""
    return tuple(sorted(path for path in plan.system.paths() if path.startswith(f"{FOLDER}/")))


def object_sources(plan: NodePlan) -> tuple[str, ...]:
    """Return what the reading ``kubernetes.objects`` needs; empty for nodes without the role."""
    return (*manifests(plan), OF_KUBEADM) if "kubernetes_objects" in plan.roles else ()
