"""GPUs of Kubernetes: what workers and the first head get, from the description alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lockstep.plan import ClusterPlan, kubernetes_gpus, kubernetes_operator
from lockstep.plan.kubernetes_releases import release_sources, releases
from tests.plan.test_kubernetes import planned, text_of

CONTAINERD = "/etc/containerd/lockstep-cri.toml"
VALUES = "/etc/kubernetes/lockstep-releases/gpus.yaml"
MANIFEST = "/etc/kubernetes/lockstep/gpus.yaml"


def gpus(**fields: object) -> Callable[[dict[str, Any]], object]:
    return lambda wanted: wanted["scheduler"].update(gpus=fields)


def without_comments(text: str) -> Any:
    return json.loads("\n".join(line for line in text.splitlines() if not line.startswith("#")))


def kinds(cluster: ClusterPlan) -> list[str]:
    return [one["kind"] for one in without_comments(text_of(cluster, "head1", MANIFEST))["items"]]


def test_the_device_plugin_runs_on_the_classes_with_gpus() -> None:
    cluster = planned(change=gpus(deploy="operands"))
    values = without_comments(text_of(cluster, "head1", VALUES))
    (term,) = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    (chosen,) = term["matchExpressions"]
    # The label that the kubelet of each worker sets.
    assert chosen == {"key": "lockstep/hardware-class", "operator": "In", "values": ["hgx"]}
    assert cluster.nodes["worker1"].kubernetes.labels == {"lockstep/hardware-class": "hgx"}
    assert values["deviceListStrategy"] == "cdi-cri"
    assert values["migStrategy"] == "none"
    assert kinds(cluster) == ["Namespace", "RuntimeClass"]


def test_the_strategy_for_mig_follows_from_the_hardware() -> None:
    def divided(wanted: dict[str, Any]) -> None:
        gpus(deploy="operands")(wanted)
        wanted["hardware"]["hgx"]["gpu"]["mig"] = ["1g.18gb", "3g.71gb"]

    values = without_comments(text_of(planned(change=divided), "head1", VALUES))
    assert values["migStrategy"] == "mixed"


def test_the_operator_installs_neither_driver_nor_toolkit() -> None:
    cluster = planned()
    (release,) = releases(cluster.nodes["head1"])
    assert (release.chart, release.version) == ("gpu-operator", "v26.7.0")
    values = without_comments(text_of(cluster, "head1", VALUES))
    assert values == kubernetes_operator.values(cluster.nodes["head1"])
    assert values["driver"] == values["toolkit"] == {"enabled": False}
    assert kinds(cluster) == ["Namespace"], "the operator makes its runtime class"


def test_only_the_operator_needs_labels_for_mig() -> None:
    def divided(wanted: dict[str, Any], deploy: str) -> None:
        gpus(deploy=deploy)(wanted)
        wanted["hardware"]["hgx"]["gpu"]["mig"] = ["1g.18gb"]

    found = {
        deploy: planned(change=partial(divided, deploy=deploy)).nodes["worker1"].kubernetes.labels
        for deploy in ("operator", "operands")
    }
    assert found["operator"][kubernetes_operator.MIG_LABEL] == "hgx-mig"
    assert found["operands"] == {"lockstep/hardware-class": "hgx"}


def test_a_site_that_gives_gpus_itself_is_left_alone() -> None:
    cluster = planned(change=gpus(deploy="none"))
    for node in cluster.nodes.values():
        assert not {"kubernetes_gpus", "kubernetes_releases"} & set(node.roles)
        assert "runtimes.nvidia" not in text_of(cluster, node.name, CONTAINERD)
        assert not kubernetes_gpus.links_program(node)


def test_workers_have_the_runtime_handler_and_keep_runc() -> None:
    cluster = planned()
    worker, head = (text_of(cluster, name, CONTAINERD) for name in ("worker1", "head1"))
    assert 'BinaryName = "/usr/bin/nvidia-container-runtime"' in worker
    assert "runtimes.nvidia" not in head
    for text in (worker, head):
        assert "containerd.runtimes.runc]" in text, "a file with another handler must declare it"
        assert text.count("SystemdCgroup = true") == text.count("runtime_type = ")


@pytest.mark.parametrize(("packaging", "linked"), [("debian", True), ("nvidia", False)])
def test_only_debians_driver_needs_the_link(packaging: str, linked: bool) -> None:
    def from_there(wanted: dict[str, Any]) -> None:
        wanted["software"]["nvidia"]["packaging"] = packaging

    cluster = planned(change=from_there)
    assert kubernetes_gpus.links_program(cluster.nodes["worker1"]) is linked
    assert not kubernetes_gpus.links_program(cluster.nodes["head1"])


def test_only_the_first_head_installs_releases() -> None:
    cluster = planned()
    assert release_sources(cluster.nodes["head1"]) == ("gpu-operator/gpus",)
    assert release_sources(cluster.nodes["worker1"]) == ()
    assert releases(cluster.nodes["worker1"]) == ()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ["gpu-operator", "--repo https://helm.ngc.nvidia.com/nvidia", "--version v26.7.0"]),
        (
            {
                "deploy": "operands",
                "chart_repository": "oci://[fd00::1]:5000/a",
                "plain_http": True,
            },
            ["'oci://[fd00::1]:5000/a/nvidia-device-plugin'", "--plain-http", "--version 0.19.3"],
        ),
    ],
)
def test_the_command_names_one_chart_version_and_its_limit(
    fields: dict[str, Any], words: list[str]
) -> None:
    (release,) = releases(planned(change=gpus(**fields)).nodes["head1"])
    for word in [*words, f"--values {VALUES}", "--timeout 60s", "--force-conflicts"]:
        assert word in release.command
    assert ("--repo" in release.command) is not ("oci://" in release.command)
