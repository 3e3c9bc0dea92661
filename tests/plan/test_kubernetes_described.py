"""Objects that follow from the description: namespaces, rights, priority classes, storage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.plan.kubernetes_objects import FOLDER, LABEL, manifests
from lockstep.roles import declared
from lockstep.spec import load
from tests.plan.test_kubernetes import planned
from tests.spec.kubernetes_example import description

MANY, QUOTA = {"pods": "many"}, ("namespaces", 0, "quota", "pods")
FIELDS: dict[str, Any] = {
    "namespaces": [
        {"name": "a", "pod_security": "restricted", "quota": {"requests.nvidia.com/gpu": "16"}},
        {"name": "b"},
    ],
    "users": [
        {"name": "ada", "groups": ["team"], "access": {"a": "edit", "b": "view"}},
        {"name": "grace", "cluster_admin": True},
    ],
    "priority_classes": {"urgent": {"value": 7}, "batch": {"value": -7, "preempts": False}},
    "storage_path": "/scratch/volumes",
}


def objects() -> dict[str, Any]:
    """The objects of all manifests, by kind, namespace and name."""
    node = planned(change=lambda wanted: wanted["scheduler"].update(FIELDS)).nodes["head1"]
    paths = manifests(node)
    texts = [one.content.decode() for one in managed(node, None) if one.path in paths]
    found = [
        one
        for text in texts
        if text.startswith("#")
        for one in json.loads(text.split("\n", 1)[1])["items"]
    ]
    return {
        f"{one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one
        for one in found
    }


def test_without_a_field_there_is_no_manifest() -> None:
    assert not [
        one for one in manifests(planned().nodes["head1"]) if one.startswith(f"{FOLDER}/20-")
    ]


def test_a_namespace_refuses_pods_by_the_rules_of_its_release() -> None:
    found = objects()
    labels = found["Namespace /a"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert labels["pod-security.kubernetes.io/enforce-version"] == "v1.34"
    assert (
        found["Namespace /b"]["metadata"]["labels"]["pod-security.kubernetes.io/warn"] == "baseline"
    )
    quota = found["ResourceQuota a/lockstep"]
    assert quota["spec"] == {"hard": {"requests.nvidia.com/gpu": "16"}}
    assert "ResourceQuota b/lockstep" not in found


def test_a_user_has_a_role_in_each_namespace_and_nowhere_else() -> None:
    found = objects()
    bindings = {
        key: (one["roleRef"]["name"], [subject["name"] for subject in one["subjects"]])
        for key, one in found.items()
        if "Binding" in key and "provisioner" not in key
    }
    assert bindings == {
        "RoleBinding a/ada-edit": ("edit", ["ada"]),
        "RoleBinding b/ada-view": ("view", ["ada"]),
        "ClusterRoleBinding /grace-cluster-admin": ("cluster-admin", ["grace"]),
    }


def test_priority_classes_may_wait_for_room() -> None:
    found = objects()
    assert found["PriorityClass /urgent"]["value"] == 7
    assert found["PriorityClass /batch"]["preemptionPolicy"] == "Never"


def test_volumes_are_on_the_scratch_disk() -> None:
    found = objects()
    config = found["ConfigMap local-path-storage/local-path-config"]["data"]
    (paths,) = json.loads(config["config.json"])["nodePathMap"]
    assert paths["paths"] == ["/scratch/volumes"]
    assert json.loads(config["helperPod.yaml"])["spec"]["containers"][0]["name"] == "helper-pod"
    notes = found["StorageClass /local-path"]["metadata"]["annotations"]
    assert notes == {"storageclass.kubernetes.io/is-default-class": "true"}


def test_every_object_has_the_label() -> None:
    assert {one["metadata"]["labels"][LABEL] for one in objects().values()} == {"lockstep"}


@pytest.mark.parametrize(
    ("field", "value", "path", "allowed"),
    [
        ("namespaces", [{"name": "kube-a"}], ("namespaces", 0, "name"), "begin with kube-"),
        ("namespaces", [{"name": "a"}, {"name": "a"}], ("namespaces", 1, "name"), "there once"),
        ("namespaces", [{"name": "A"}], ("namespaces", 0, "name"), "lower-case"),
        ("namespaces", [{"name": "a", "quota": MANY}], QUOTA, "quantity"),
        ("users", [{"name": "ada", "access": {"c": "view"}}], ("users", 0, "access"), "none"),
        ("users", [{"name": "system:admin"}], ("users", 0, "name"), "letters, digits"),
        ("priority_classes", {"system-x": {"value": 1}}, ("priority_classes",), "system-"),
        ("storage_path", "/scratch", ("storage_path",), "scratch disk"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(
    field: str, value: object, path: tuple[str | int, ...], allowed: str
) -> None:
    wanted = description()
    wanted["scheduler"][field] = value
    (problem,) = load(wanted, declared())[1]
    assert problem.path == ("scheduler", *path)
    assert allowed in problem.allowed
