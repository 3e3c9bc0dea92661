"""Rules about Kubernetes: each changed value on one node is one finding that names the node."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.kubernetes_views import configured, quantity
from lockstep.report import Finding
from lockstep.roles.steps.reboot.objections import CORDONED
from tests.checks import recorded
from tests.checks import recorded_kubernetes as cluster
from tests.checks.recorded import REMOVED
from tests.checks.recorded_machine import DCGM_EXPORTER

HEAD, NODE = "head1", "worker3"
NODES, CONFIG = "kubernetes.nodes", "kubernetes.kubelet_config"
GPUS, UNKNOWN = "kubernetes.gpus", "kubernetes.unknown_node"
API, PROXY = "kubernetes.control_plane", "kubernetes.kube_proxy"
STOPPED = {**recorded.RUNNING, "active": "inactive", "sub": "dead"}
PKI = "/etc/kubernetes/pki"
PLUGIN = "gpu-operator/gpus"
ROUTE = "fd00:1:0:ffff:105::/80"
ENTRIES: tuple[tuple[str, tuple[str, ...], Any, str, str], ...] = (
    # rule, place in the API server's entry for worker3, value, device, found
    ("node", ("conditions", "Ready"), "Unknown", "", "not Ready"),
    ("node", ("conditions", "MemoryPressure"), "True", "", "MemoryPressure is True"),
    ("node", ("conditions",), {}, "", "no condition Ready"),
    ("node", ("unschedulable",), True, "", "cordoned"),
    ("version", ("version",), "v1.33.9", "", "v1.33.9"),
    ("allocatable", ("allocatable", "cpu"), "15500m", "cpu", "15.5"),
    ("allocatable", ("allocatable", "hugepages-2Mi"), "0", "hugepages-2Mi", "0 MiB"),
    ("allocatable", ("allocatable", "hugepages-1Gi"), REMOVED, "hugepages-1Gi", "0 MiB"),
    ("allocatable", ("allocatable", "nvidia.com/gpu"), "7", "nvidia.com/gpu", "7"),
    ("labels", ("labels", "lockstep/hardware-class"), "x", "lockstep/hardware-class", "x"),
    ("labels", ("labels", "lockstep/hardware-class"), REMOVED, "lockstep/hardware-class", "absent"),
    ("taints", ("taints",), ["forgotten=yes:NoExecute"], "", "forgotten=yes:NoExecute"),
)
SETTINGS: tuple[tuple[str, Any, str], ...] = (
    ("maxPods", 250, "250"),
    ("failSwapOn", False, "no"),
    ("evictionHard", {"memory.available": "100Mi"}, "memory.available 100 MiB"),
    ("reservedMemory", [], "nothing"),
    ("reservedSystemCPUs", REMOVED, "not set"),
    ("topologyManagerPolicy", "none", "none"),
)
OF_NODES: tuple[tuple[str, str, tuple[str, ...], Any, str, str], ...] = (
    ("routes", NODE, (ROUTE,), REMOVED, ROUTE, "no route"),
    ("routes", NODE, (ROUTE,), "fd00:1::199", ROUTE, "fd00:1::199"),
    ("routes", NODE, ("fd00:9::/64",), "fd00:1::199", "fd00:9::/64", "fd00:1::199"),
    ("certificates", NODE, (f"{PKI}/ca.crt",), 29, f"{PKI}/ca.crt", "29 days left"),
    ("certificates", HEAD, (f"{PKI}/ca.crt",), -1, f"{PKI}/ca.crt", "-1 days left"),
    ("static_pods", NODE, ("miner",), ["x:1"], "miner", "x:1"),
    ("static_pods", HEAD, ("etcd",), REMOVED, "etcd", "absent"),
    ("static_pods", HEAD, ("kube-scheduler",), ["x:1"], "kube-scheduler", "x:1"),
    ("kube_proxy", NODE, (), "iptables", "", "iptables"),
    ("control_plane", HEAD, (), "not ready: etcd", "", "not ready: etcd"),
    ("gpus", NODE, ("gpu3",), "unhealthy", "gpu3", "unhealthy"),
    ("manifests", HEAD, ("kube-apiserver",), "missing", "kube-apiserver", "missing"),
    ("releases", HEAD, (PLUGIN,), {"status": "missing"}, PLUGIN, "status missing"),
    ("releases", HEAD, (PLUGIN, "values"), "differ", PLUGIN, "values differ"),
    (
        "releases",
        HEAD,
        (PLUGIN, "objects", "DaemonSet a/b"),
        "missing",
        f"{PLUGIN} DaemonSet a/b",
        "missing",
    ),
    ("objects", HEAD, ("Service a/b",), "missing", "Service a/b", "missing"),
    ("unavailable", HEAD, ("Deployment a/b",), "0 of 2 pods", "Deployment a/b", "0 of 2 pods"),
)


def changed(node: str, reading: str, path: tuple[str, ...], value: Any) -> Context:
    return recorded.mutated(cluster.consistent(), node, reading, path, value)


def findings(context: Context) -> list[Finding]:
    return list(recorded.report(context).findings)


def test_a_cluster_as_planned_has_no_finding() -> None:
    assert findings(cluster.consistent()) == []


@pytest.mark.parametrize(("rule", "path", "value", "device", "said"), ENTRIES)
def test_one_change_that_the_api_server_sees(
    rule: str, path: tuple[str, ...], value: Any, device: str, said: str
) -> None:
    found = recorded.only(findings(changed(HEAD, NODES, (NODE, *path), value)))
    assert (found.rule, found.node, found.device) == (f"kubernetes.{rule}", NODE, device)
    assert said in found.found
    assert "{" not in found.repair


@pytest.mark.parametrize(("key", "value", "said"), SETTINGS)
def test_one_setting_of_a_running_kubelet(key: str, value: Any, said: str) -> None:
    found = recorded.only(findings(changed(HEAD, CONFIG, (NODE, key), value)))
    assert (found.rule, found.node, found.device) == ("kubernetes.kubelet_config", NODE, key)
    assert said in found.found


@pytest.mark.parametrize(("rule", "node", "path", "value", "device", "said"), OF_NODES)
def test_one_change_on_a_node(
    rule: str, node: str, path: tuple[str, ...], value: Any, device: str, said: str
) -> None:
    found = recorded.only(findings(changed(node, f"kubernetes.{rule}", path, value)))
    assert (found.rule, found.node, found.device) == (f"kubernetes.{rule}", node, device)
    assert said in found.found


def test_every_rule_of_kubernetes_is_broken_here() -> None:
    broken = {f"kubernetes.{rule}" for rule, *_ in (*ENTRIES, *OF_NODES)} | {CONFIG, UNKNOWN}
    assert broken == {rule.id for rule in all_rules() if rule.id.startswith("kubernetes.")}


def test_a_lost_gpu_is_the_cause_of_one_that_kubernetes_lacks() -> None:
    start = changed(HEAD, NODES, (NODE, "allocatable", "nvidia.com/gpu"), "7")
    found = findings(recorded.mutated(start, NODE, "gpu.count", (), 7))
    assert "kubernetes.allocatable" not in {one.rule for one in found}


def test_a_gpu_that_the_device_plugin_gave_up_is_named() -> None:
    start = changed(HEAD, NODES, (NODE, "allocatable", "nvidia.com/gpu"), "7")
    start = recorded.mutated(start, HEAD, NODES, (NODE, "conditions", "LockstepHealthy"), "False")
    found = recorded.only(findings(recorded.mutated(start, NODE, GPUS, ("gpu3",), "unhealthy")))
    assert (found.rule, found.node, found.device) == (GPUS, NODE, "gpu3")
    # The driver's own message says more.
    start = recorded.mutated(start, NODE, GPUS, ("gpu3",), "unhealthy")
    address = start.views[NODE].items("gpu.pci_bus_id")["gpu3"]
    slot = str(address)[-12:].rpartition(".")[0].lower()
    found = recorded.only(findings(recorded.mutated(start, NODE, "driver.xid", (slot,), [79])))
    assert (found.rule, found.device) == ("gpu.xid", "gpu3")


def test_a_device_plugin_that_does_not_run_is_one_finding() -> None:
    start = changed(HEAD, NODES, (NODE, "allocatable", "nvidia.com/gpu"), "0")
    found = recorded.only(findings(recorded.mutated(start, NODE, GPUS, (), REMOVED)))
    assert (found.rule, found.node) == ("kubernetes.allocatable", NODE)


def test_the_object_of_a_node_that_left_the_description_is_named() -> None:
    nodes = cluster.consistent().views[HEAD].items(NODES)
    found = recorded.only(findings(changed(HEAD, NODES, ("worker99",), nodes[NODE])))
    assert (found.rule, found.node, found.device) == (UNKNOWN, HEAD, "worker99")
    assert "delete node worker99" in found.repair
    assert "{" not in found.repair


def test_days_decide_how_severe_the_end_of_a_certificate_is() -> None:
    path = f"{PKI}/ca.crt"
    severities = {
        days: recorded.only(
            findings(changed(NODE, "kubernetes.certificates", (path,), days))
        ).severity
        for days in (29, 7, 6, -3)
    }
    assert severities == {29: "warning", 7: "warning", 6: "error", -3: "error"}


@pytest.mark.parametrize(
    ("node", "reading"),
    [
        (HEAD, NODES),
        (HEAD, CONFIG),
        (HEAD, "kubernetes.control_plane"),
        (HEAD, "kubernetes.manifests"),
        (HEAD, "kubernetes.objects"),
        (HEAD, "kubernetes.unavailable"),
        (HEAD, "kubernetes.releases"),
        *((NODE, f"kubernetes.{one}") for one in ("routes", "certificates", "static_pods")),
        (NODE, "kubernetes.kube_proxy"),
        (NODE, "kubernetes.gpus"),
    ],
)
def test_what_was_not_read_is_never_fine(node: str, reading: str) -> None:
    found = findings(changed(node, reading, (), REMOVED))
    assert {one.status for one in found} == {"unknown"}
    assert any(node in one.node or HEAD in one.detail for one in found)


def test_an_api_server_that_does_not_answer_is_one_finding() -> None:
    start = cluster.consistent()
    for reading in (NODES, CONFIG):
        start = recorded.mutated(start, HEAD, reading, (), REMOVED)
    found = recorded.only(findings(start))
    assert (found.rule, found.node) == ("kubernetes.node", HEAD)
    assert "kubernetes.kubelet_config" in found.detail


def test_a_head_without_its_api_server_is_one_finding() -> None:
    silent = "the API server [fd00:1::11]:6443 does not answer: Connection refused"
    start = changed(HEAD, API, (), silent)
    start = recorded.mutated(start, NODE, PROXY, (), "nftables, but the Service does not answer")
    of_api = ("kubernetes.objects", "kubernetes.unavailable", "kubernetes.releases")
    for reading in (NODES, CONFIG, *of_api):
        start = recorded.mutated(start, HEAD, reading, (), REMOVED)
    found = recorded.only(findings(start))
    assert (found.rule, found.node, found.status) == (API, HEAD, "differs")
    assert "crictl ps --all" in found.repair
    assert "deploys/head.py --limit head1" in found.repair
    assert "kubernetes.node" in found.detail


def test_an_edited_deployment_without_pods_is_one_finding_that_a_deploy_repairs() -> None:
    one = "Deployment a/b"
    start = changed(HEAD, "kubernetes.objects", (one,), "differs: spec.template")
    found = recorded.only(
        findings(recorded.mutated(start, HEAD, "kubernetes.unavailable", (one,), "0 of 2 pods"))
    )
    assert (found.rule, found.device) == ("kubernetes.objects", one)
    # The same reader has not read both.
    start = changed(HEAD, "kubernetes.objects", (), REMOVED)
    found = recorded.only(
        findings(recorded.mutated(start, HEAD, "kubernetes.unavailable", (), REMOVED))
    )
    assert (found.rule, found.status) == ("kubernetes.objects", "unknown")


@pytest.mark.parametrize(
    ("node", "reading", "path", "value", "device"),
    [
        (HEAD, "units", ("kubelet.service",), STOPPED, "kubelet.service"),
        (HEAD, "kubernetes.static_pods", ("etcd",), REMOVED, "etcd"),
        (HEAD, "kubernetes.manifests", ("kube-apiserver",), "differs: x", "kube-apiserver"),
    ],
)
def test_what_stops_an_api_server_is_its_cause(
    node: str, reading: str, path: tuple[str, ...], value: Any, device: str
) -> None:
    start = changed(HEAD, API, (), "not ready: etcd")
    found = findings(recorded.mutated(start, node, reading, path, value))
    assert API not in {one.rule for one in found}
    assert device in {one.device for one in found}


def test_a_stopped_kubelet_is_one_finding() -> None:
    start = recorded.mutated(cluster.consistent(), NODE, "units", ("kubelet.service",), STOPPED)
    start = recorded.mutated(start, HEAD, NODES, (NODE, "conditions", "Ready"), "Unknown")
    start = recorded.mutated(start, HEAD, CONFIG, (NODE,), {"unread": "not Ready"})
    start = recorded.mutated(start, NODE, "kubernetes.kube_proxy", (), REMOVED)
    start = recorded.mutated(start, NODE, "listeners", ("tcp/10250",), [])
    found = recorded.only(findings(start))
    assert (found.rule, found.node, found.device) == ("unit.active", NODE, "kubelet.service")
    assert "kubernetes.node" in found.detail
    # The API server has not noticed yet.
    ready = recorded.mutated(start, HEAD, NODES, (NODE, "conditions", "Ready"), "True")
    assert recorded.only(findings(ready)).device == "kubelet.service"


def test_a_node_that_its_own_check_took_out_is_part_of_the_cause() -> None:
    unhealthy = {"Ready": "True", "LockstepHealthy": "False"}
    start = recorded.mutated(cluster.consistent(), NODE, "gpu.count", (), 7)
    start = recorded.mutated(start, HEAD, NODES, (NODE, "conditions"), unhealthy)
    found = findings(start)
    assert "kubernetes.node" not in {one.rule for one in found}
    cordoned = {"unschedulable": True, "annotations": {"lockstep/cordoned": "lockstep: gpu.count"}}
    for key, value in cordoned.items():
        start = recorded.mutated(start, HEAD, NODES, (NODE, key), value)
    assert "kubernetes.node" not in {one.rule for one in findings(start)}
    of_rollout = {"lockstep/cordoned": "lockstep-upgrade: Kubernetes"}
    for marks, told in ({}, "cordoned"), (of_rollout, "by a rollout: lockstep-upgrade"):
        start = recorded.mutated(start, HEAD, NODES, (NODE, "annotations"), marks)
        (shown,) = (one for one in findings(start) if one.rule == "kubernetes.node")
        assert told in str(shown)
    # A rollout that reboots nodes relies on this beginning.
    start = recorded.mutated(start, HEAD, NODES, (NODE, "conditions"), {"Ready": "True"})
    (shown,) = (one for one in findings(start) if one.rule == "kubernetes.node")
    assert shown.found.startswith(CORDONED)
    alone = findings(changed(HEAD, NODES, (NODE, "conditions"), unhealthy))
    assert [one.rule for one in alone] == ["kubernetes.node"]


def test_the_rule_knows_every_setting_of_the_kubelets_file() -> None:
    context = cluster.consistent()
    for node in context.plan.nodes.values():
        text = context.files_of(node)["/etc/kubernetes/kubelet.conf.d/50-lockstep.conf"].content
        keys = set(re.findall(r"^(\w+):", text.decode(), re.MULTILINE)) - {"apiVersion", "kind"}
        assert set(configured(context.views[node.name])) == keys


def test_quantities() -> None:
    texts = ("15", "1500m", "2Gi", "24684092Ki", "1G")
    assert [quantity(text) for text in texts] == [15, 1.5, 2 << 30, 24684092 << 10, 1e9]
    with pytest.raises(ValueError, match="no quantity"):
        quantity("2 GiB")


def both(wanted: dict[str, Any]) -> None:
    """Give workers 1 to 4 of the recorded cluster to Slurm, and the others to Kubernetes."""
    of_pods = cluster.description()
    head, workers = wanted["nodes"]
    _, with_pods = of_pods["nodes"]
    head["runs"] = ["kubernetes_control_plane", *head["runs"]]
    head["pods"] = "fd00:1:0:ffff:1::/80"
    at = {"name": "worker[5-8]", "management": "fd00:1::105", "fabric": "fd00:2::105"}
    wanted["nodes"] = [
        head,
        {**workers, "name": "worker[1-4]", "scheduler": "slurm"},
        {**with_pods, **at, "scheduler": "kubernetes"},
    ]
    wanted["scheduler"] = [wanted["scheduler"], of_pods["scheduler"]]
    wanted["software"]["containers"] = of_pods["software"]["containers"]


def test_the_object_of_a_node_that_went_to_slurm_is_named() -> None:
    nodes = cluster.consistent().views[HEAD].items(NODES)
    left = {name: nodes[name] for name in (HEAD, "worker2", "worker6")}
    start = recorded.mutated(recorded.clustered(both), HEAD, NODES, (), left)
    found = recorded.only(recorded.report(start, UNKNOWN).findings)
    assert (found.rule, found.node, found.device) == (UNKNOWN, HEAD, "worker2")
    assert "deploys/remove.py --limit worker2" in found.repair
    assert "{" not in found.repair


def test_workers_of_both_schedulers_are_compared_without_what_their_scheduler_needs() -> None:
    start, exporter, line = recorded.clustered(both), "dcgm-exporter", DCGM_EXPORTER
    for number in (5, 6, 7, 8):
        place = ("collectors", (exporter,), [f"{line} -k"])
        start = recorded.mutated(start, f"worker{number}", *place)
    assert list(recorded.report(start, "collector.settings").findings) == []
    for node in ("worker2", "worker6"):
        faster = recorded.mutated(start, node, "collectors", (exporter,), [f"{line} -c 1000"])
        found = recorded.only(recorded.report(faster, "collector.settings").findings)
        assert (found.node, found.device) == (node, exporter)
    # A worker of Slurm has no pods.
    asks = recorded.mutated(start, "worker2", "collectors", (exporter,), [f"{line} -k"])
    found = recorded.only(recorded.report(asks, "collector.settings").findings)
    assert (found.node, found.device) == ("worker2", exporter)
