"""The objects of Kubernetes that follow from the description: namespaces, rights, storage.

Kinds and fields: reference of the Kubernetes API 1.34. Local volumes: README.md and
deploy/local-path-storage.yaml of rancher/local-path-provisioner v0.0.30.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from lockstep.plan.declaration import File
from lockstep.plan.kubernetes_objects import FOLDER, VALIDATE, Object, manifest
from lockstep.spec.kubernetes import Kubernetes

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

RBAC = "rbac.authorization.k8s.io"
STORAGE = "local-path-storage"
"""The namespace of the provisioner of local volumes."""
PROVISIONER = "local-path-provisioner"
PROVISIONER_CONFIG = "local-path-config"
"""The ConfigMap that the provisioner reads by default (main.go: DefaultConfigMapName)."""
PROVISIONER_IMAGE = "docker.io/rancher/local-path-provisioner:v0.0.30"
HELPER_IMAGE = "docker.io/library/busybox:1.37"
"""Makes and removes the folders of volumes."""
STORAGE_CLASS = "local-path"

Objects = Callable[[Kubernetes], list[Object]]


def described_files() -> tuple[File, ...]:
    """Return the manifests that follow from the description; namespaces come first."""
    return tuple(
        _file(name, objects)
        for name, objects in (
            ("10-namespaces", namespaces),
            ("20-users", users),
            ("20-priority-classes", priority_classes),
            ("20-storage", storage),
        )
    )


def _file(name: str, objects: Objects) -> File:
    def of(plan: NodePlan) -> list[Object]:
        return [] if plan.spec.kubernetes is None else objects(plan.spec.kubernetes)

    return File(
        path=f"{FOLDER}/{name}.yaml",
        text=lambda plan: manifest(of(plan)),
        validate=VALIDATE,
        wanted=lambda plan: bool(of(plan)),
    )


def _object(
    version: str, kind: str, name: str, namespace: str = "", **fields: object
) -> dict[str, object]:
    about = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": about, **fields}


def namespaces(settings: Kubernetes) -> list[Object]:
    """Return the namespaces, with their quotas and the level of Pod Security Admission."""
    found: list[Object] = []
    for one in settings.namespaces:
        found.append(_namespace(one.name, one.pod_security, settings))
        if one.quota:
            quota = {"hard": dict(one.quota)}
            found.append(_object("v1", "ResourceQuota", "lockstep", one.name, spec=quota))
    return found


def _namespace(name: str, level: str, settings: Kubernetes) -> Object:
    """Return a namespace; the rules of its level are those of the release of Kubernetes."""
    version = f"v{settings.minor_version}"
    prefix = "pod-security.kubernetes.io"
    labels = {
        f"{prefix}/{mode}{part}": value
        for mode in ("enforce", "warn")
        for part, value in (("", level), ("-version", version))
    }
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    }


def users(settings: Kubernetes) -> list[Object]:
    """Return the role bindings of the users. Their names have the role, which cannot change."""
    found: list[Object] = []
    for user in settings.users:
        subject = {"apiGroup": RBAC, "kind": "User", "name": user.name}
        for namespace, role in user.access.items():
            found.append(_binding("RoleBinding", f"{user.name}-{role}", role, subject, namespace))
        if user.cluster_admin:
            name = f"{user.name}-cluster-admin"
            found.append(_binding("ClusterRoleBinding", name, "cluster-admin", subject))
    return found


def _binding(
    kind: str, name: str, role: str, subject: object, namespace: str = "", of: str = "ClusterRole"
) -> Object:
    reference = {"apiGroup": RBAC, "kind": of, "name": role}
    return _object(f"{RBAC}/v1", kind, name, namespace, roleRef=reference, subjects=[subject])


def priority_classes(settings: Kubernetes) -> list[Object]:
    """Return the priority classes."""
    return [
        _object(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            name,
            value=one.value,
            preemptionPolicy="PreemptLowerPriority" if one.preempts else "Never",
        )
        for name, one in settings.priority_classes.items()
    ]


def storage(settings: Kubernetes) -> list[Object]:
    """Return the default storage class, and the program that makes its volumes."""
    if settings.storage_path is None:
        return []
    subject = {"kind": "ServiceAccount", "name": PROVISIONER, "namespace": STORAGE}
    return [
        _namespace(STORAGE, "privileged", settings),
        _object("v1", "ServiceAccount", PROVISIONER, STORAGE),
        _object(
            f"{RBAC}/v1",
            "Role",
            PROVISIONER,
            STORAGE,
            rules=[_rule("", ["pods"], *READS, *WRITES)],
        ),
        _binding("RoleBinding", PROVISIONER, PROVISIONER, subject, STORAGE, "Role"),
        _object(
            f"{RBAC}/v1",
            "ClusterRole",
            PROVISIONER,
            rules=[
                _rule("", ["nodes", "persistentvolumeclaims", "configmaps", "pods"], *READS),
                _rule("", ["pods/log"], *READS),
                _rule("", ["persistentvolumes"], *READS, *WRITES),
                _rule("", ["events"], "create", "patch"),
                _rule("storage.k8s.io", ["storageclasses"], *READS),
            ],
        ),
        _binding("ClusterRoleBinding", PROVISIONER, PROVISIONER, subject),
        _object(
            "v1",
            "ConfigMap",
            PROVISIONER_CONFIG,
            STORAGE,
            data=_provisioning(settings.storage_path),
        ),
        _provisioner(),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "rancher.io/local-path",
            # A volume is made on the node that its first pod runs on.
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
    ]


READS = ("get", "list", "watch")
WRITES = ("create", "patch", "update", "delete")


def _rule(group: str, resources: list[str], *verbs: str) -> object:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _provisioning(path: str) -> dict[str, str]:
    """Return the provisioner's settings, its scripts, and the pod that runs them on a node."""
    every_node = {"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [path]}
    helper = {"name": "helper-pod", "image": HELPER_IMAGE, "imagePullPolicy": "IfNotPresent"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
            "containers": [helper],
        },
    }
    return {
        "config.json": json.dumps({"nodePathMap": [every_node]}),
        "setup": '#!/bin/sh\nset -eu\nmkdir -p -m 777 "$VOL_DIR"\n',
        "teardown": '#!/bin/sh\nset -eu\nrm -r "$VOL_DIR"\n',
        "helperPod.yaml": json.dumps(pod),
    }


def _provisioner() -> Object:
    labels = {"app": PROVISIONER}
    own = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    container = {
        "name": PROVISIONER,
        "image": PROVISIONER_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "local-path-provisioner",
            "start",
            "--config",
            "/etc/config/config.json",
            "--service-account-name",
            PROVISIONER,
        ],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": own},
            {"name": "CONFIG_MOUNT_PATH", "value": "/etc/config/"},
        ],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config/"}],
    }
    pod = {
        "serviceAccountName": PROVISIONER,
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": PROVISIONER_CONFIG}}],
    }
    return _object(
        "apps/v1",
        "Deployment",
        PROVISIONER,
        STORAGE,
        spec={
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    )
