"""GPUs as resources of Kubernetes: pods see theirs, faults and MIG change what can be had."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.kubectl import wait_for_alert
from tests.lab.labs import INVENTORY, Lab

pytestmark = [pytest.mark.slow]

KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=30s"
SYSTEM = "gpu-operator"
NODE, OTHER = "worker1", "worker2"
MIG = "tests/lab/kubernetes_mig_inventory.py"
READY_S = 120


def kubectl(lab: Lab, words: str, check: bool = True, stdin: str | None = None) -> str:
    script = f"{KUBECTL} {words}"
    return lab.lab("run", "head", "--", "sh", "-c", script, check=check, stdin=stdin).stdout


def allocatable(lab: Lab, node: str = NODE) -> dict[str, str]:
    """The GPUs that a worker can give to pods."""
    found = json.loads(kubectl(lab, f"get node {node} -o jsonpath='{{.status.allocatable}}'"))
    return {name: n for name, n in found.items() if name.startswith("nvidia.com/") and n != "0"}


def wait_for(lab: Lab, wanted: dict[str, str], node: str = NODE) -> None:
    deadline = time.monotonic() + READY_S
    while (found := allocatable(lab, node)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(2)


def pod(name: str, gpus: int, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "docker.io/library/debian:trixie-slim",
        "command": ["sleep", "3600"],
        "resources": {"limits": {resource: gpus}},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def started(pods: Lab) -> Iterator[Lab]:
    """The cluster; afterwards it has no pods of these tests."""
    wait_for(pods, {"nvidia.com/gpu": "8"})
    yield pods
    kubectl(pods, "delete pods --all --now --timeout=60s")


def start(lab: Lab, *objects: dict[str, Any]) -> None:
    items = {"kind": "List", "apiVersion": "v1", "items": objects}
    kubectl(lab, "apply -f -", stdin=json.dumps(items))


def seen(lab: Lab, name: str) -> list[str]:
    """The GPUs that nvidia-smi lists in a pod, or the MIG devices."""
    kubectl(lab, f"wait --for=condition=Ready pod {name} --timeout={READY_S}s")
    return re.findall(r"UUID: (\S+)\)", kubectl(lab, f"exec {name} -- nvidia-smi -L"))


def test_pods_see_their_own_gpus_and_no_others(started: Lab) -> None:
    start(started, pod("two", 2), pod("three", 3), pod("nine", 9))
    two, three = seen(started, "two"), seen(started, "three")
    assert (len(set(two)), len(set(three))) == (2, 3)
    on = {
        name: kubectl(started, f"get pod {name} -o jsonpath='{{.spec.nodeName}}'")
        for name in ("two", "three")
    }
    if on["two"] == on["three"]:
        assert not set(two) & set(three)
    assert set(two) <= set(re.findall(r"GPU-[0-9a-f-]+", started.on(on["two"], "nvidia-smi -L")))
    devices = kubectl(started, "exec two -- ls /dev").split()
    assert len([one for one in devices if re.fullmatch(r"nvidia\d+", one)]) == 2
    assert kubectl(started, "get pod nine -o jsonpath='{.status.phase}'") == "Pending"
    assert "Insufficient nvidia.com/gpu" in kubectl(started, "describe pod nine")


def test_nodes_have_the_labels_of_gpu_and_node_feature_discovery(started: Lab) -> None:
    found = json.loads(kubectl(started, f"get node {NODE} -o json"))["metadata"]["labels"]
    kernel = started.on(NODE, "uname -r").strip()
    expected = {
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "nvidia.com/gpu.count": "8",
        "feature.node.kubernetes.io/kernel-version.full": kernel,
    }
    assert {name: found.get(name) for name in expected} == expected


def health(lab: Lab) -> dict[str, Any]:
    """The condition that the node check sets, and whether the node takes pods."""
    node = json.loads(kubectl(lab, f"get node {NODE} -o json"))
    rows = {row["type"]: row for row in node["status"]["conditions"]}
    condition = rows.get("LockstepHealthy", {})
    found = {name: condition.get(name) for name in ("status", "reason", "message")}
    return {**found, "cordoned": node["spec"].get("unschedulable", False)}


def test_a_gpu_with_a_fatal_error_is_named_and_not_given_to_pods(started: Lab) -> None:
    started.lab("gpu", NODE, "--gpu", "3", "--set", "xid=79")
    try:
        wait_for(started, {"nvidia.com/gpu": "7"})
        started.node_check(NODE)
        assert health(started) == {
            "status": "False",
            "reason": "NodeCheckFailed",
            "message": "lockstep: kubernetes.gpus gpu3: found unhealthy, expected healthy",
            "cordoned": True,
        }
        # What Kubernetes offers, the condition and the cordon are parts of the cause.
        assert started.check().named == {("kubernetes.gpus", NODE, "gpu3")}
        wait_for_alert(started, "GpusNotAllocatable", NODE)
    finally:
        started.lab("gpu", NODE, "--gpu", "3", "--set", "xid=none")
        kubectl(started, f"-n {SYSTEM} rollout restart daemonset")
    kubectl(started, f"-n {SYSTEM} rollout status daemonset --timeout=60s")
    for node in (NODE, OTHER):
        wait_for(started, {"nvidia.com/gpu": "8"}, node)
    started.node_check(NODE)
    assert health(started) == {
        "status": "True",
        "reason": "NodeCheckPassed",
        "message": "the node check found no failure",
        "cordoned": False,
    }
    assert started.check().named == set()


def test_what_somebody_changed_in_a_release_is_repaired(started: Lab) -> None:
    kubectl(started, f"-n {SYSTEM} set env ds/gpus-nvidia-device-plugin MIG_STRATEGY=single")
    kubectl(started, "delete clusterrole gpus-nvidia-device-plugin-role")
    deployed = started.deploy()
    assert deployed.status == 0, deployed.errors
    assert [one for one in deployed.changed if "Releases" in one]
    kubectl(started, "get clusterrole gpus-nvidia-device-plugin-role")
    found = kubectl(started, f"-n {SYSTEM} get ds gpus-nvidia-device-plugin -o yaml")
    assert "value: single" not in found
    assert started.deploy().changed == []


def test_another_layout_of_mig_devices_becomes_other_resources(started: Lab) -> None:
    deployed = started.deploy(inventory=MIG)
    assert deployed.status == 0, deployed.errors
    try:
        wait_for(started, {"nvidia.com/mig-1g.18gb": "8", "nvidia.com/mig-3g.71gb": "8"})
        start(started, pod("part", 1, "nvidia.com/mig-1g.18gb"))
        gpu, mig = seen(started, "part")
        assert gpu.startswith("GPU-")
        assert mig.startswith("MIG-")
        kubectl(started, "delete pod part --now --timeout=60s")
        assert started.check(inventory=MIG).named == set()
    finally:
        deployed = started.deploy(inventory=INVENTORY)
    assert deployed.status == 0, deployed.errors
    wait_for(started, {"nvidia.com/gpu": "8"})
    # MIG devices that are not declared any more stay until the next boot: a job may use them.
    assert "gpu.mig" in {rule for rule, _, _ in started.check().named}
    for node in ("worker1", "worker2"):
        started.lab("power-cycle", node)
    kubectl(started, "wait --for=condition=Ready node/worker1 node/worker2 --timeout=180s")
