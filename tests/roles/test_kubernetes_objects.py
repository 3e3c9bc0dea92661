"""Objects of Kubernetes: the reading names each one that is not as planned, the role repairs it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from lockstep.node.readers import kubernetes_objects as reader
from lockstep.node.readers import tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.plan import kubernetes_objects as plan
from lockstep.roles.operations import kubernetes_objects as role
from lockstep.roles.operations import operation as of_operations
from tests.golden.write import plan_of

MANIFEST = "/etc/kubernetes/lockstep/a.yaml"
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "team", "namespace": "a", "resourceVersion": "7", "generation": 3},
    "spec": {"hard": {"pods": "10", "requests.nvidia.com/gpu": "16"}},
    "status": {"used": {"pods": "1"}},
}
DAEMONS = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {
        "name": "kube-proxy",
        "namespace": "kube-system",
        "annotations": {"deprecated.daemonset.template.generation": "1"},
    },
    "spec": {"containers": [{"name": "kube-proxy", "image": "kube-proxy:1"}]},
}


class Cluster(Commands):
    """A kubectl whose answers are lists of objects, and a kubeadm that prints one object."""

    def __init__(self, live: list[Any], merged: list[Any], labelled: list[Any]) -> None:
        super().__init__()
        self.live, self.merged, self.labelled = live, merged, labelled
        self.texts: list[str] = []
        self.unknown = ""

    @override
    def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
        if argv[0] == "kubeadm":
            return 0, "a message\n---\nkind: DaemonSet\n" if "kube-proxy" in argv else "---\n", ""
        verb = argv[len(reader.KUBECTL)]
        self.texts.append(text)
        if verb == "create":
            return 0, json.dumps(DAEMONS) if "DaemonSet" in text else "", ""
        if verb == "apply":
            assert "--dry-run=server" in argv
            return 0, listed(self.merged), ""
        if "--all-namespaces" in argv:
            return 0, listed(self.labelled), ""
        if self.unknown and self.unknown in text:
            return 1, "", f'no matches for kind "{self.unknown}" in version "x/v1"'
        return 0, listed(self.live), ""


def listed(objects: list[Any]) -> str:
    return json.dumps({"kind": "List", "items": objects})


def changed(one: Any, change: Callable[[Any], object]) -> Any:
    copy = json.loads(json.dumps(one))
    change(copy)
    return copy


@pytest.fixture(autouse=True)
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    (tmp_path / "etc/kubernetes/lockstep").mkdir(parents=True)
    (tmp_path / reader.ADMIN_CONF[1:]).touch()
    (tmp_path / MANIFEST[1:]).write_text(plan.manifest([QUOTA]))
    return tmp_path


def read(cluster: Cluster, *names: str) -> Any:
    return readings(cluster, *names)["kubernetes.objects"]


def readings(cluster: Cluster, *names: str) -> Any:
    return reader.read_objects({"manifests": [*names]}, cluster)


def test_what_the_api_server_sets_is_no_difference() -> None:
    other = changed(QUOTA, lambda one: one["metadata"].update(resourceVersion="8", generation=4))
    found = Cluster([QUOTA], [changed(other, lambda one: one.pop("status"))], [QUOTA])
    assert read(found, MANIFEST) == {}
    assert json.loads(found.texts[1])["items"][0]["metadata"]["labels"] == {plan.LABEL: plan.OWNER}


DONE = {"status": "True", "reason": "NewReplicaSetAvailable"}
ROLLS_OUT = {"status": "True", "reason": "ReplicaSetUpdated"}
GIVEN_UP = {"status": "False", "reason": "ProgressDeadlineExceeded"}


def deployment(pods: int, available: int, since_s: float, progressing: dict[str, str]) -> Any:
    """Return CoreDNS as the API server has it now."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - since_s))
    state = {"type": "Available", "status": str(available > 0), "lastTransitionTime": at}
    progress = {"type": "Progressing", **progressing}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system"},
        "spec": {"replicas": pods},
        "status": {"availableReplicas": available, "conditions": [state, progress]},
    }


@pytest.mark.parametrize(
    ("pods", "available", "since_s", "progressing", "unavailable", "differs"),
    [
        (2, 2, 500, DONE, {}, {}),
        (3, 3, 500, DONE, {}, {}),  # a site may choose their number
        (2, 1, 500, DONE, {}, {}),  # one may be away (maxUnavailable)
        (2, 0, 500, DONE, {reader.COREDNS: "0 of 2 pods"}, {}),
        (2, 0, 5, DONE, {}, {}),  # they start
        (2, 0, 500, ROLLS_OUT, {}, {}),  # no worker has joined yet
        (2, 0, 500, GIVEN_UP, {reader.COREDNS: "0 of 2 pods"}, {}),
        (0, 1, 500, DONE, {}, {reader.COREDNS: "differs: spec.replicas"}),
    ],
)
def test_a_deployment_needs_pods(
    pods: int,
    available: int,
    since_s: float,
    progressing: dict[str, str],
    unavailable: dict[str, str],
    differs: dict[str, str],
    head: Path,
) -> None:
    live = deployment(pods, available, since_s, progressing)
    one = {name: value for name, value in live.items() if name not in ("spec", "status")}
    (head / MANIFEST[1:]).write_text(plan.manifest([one]))
    found = readings(Cluster([live], [live], [one]), MANIFEST)
    assert found == {"kubernetes.objects": differs, "kubernetes.unavailable": unavailable}


def test_differing_missing_and_left_over_objects_are_named() -> None:
    less = changed(QUOTA, lambda one: one["spec"]["hard"].pop("pods"))
    more = changed(QUOTA, lambda one: one["metadata"].update(name="old"))
    found = read(Cluster([less], [QUOTA], [QUOTA, more]), MANIFEST)
    assert found == {
        "ResourceQuota a/team": "differs: spec.hard.pods",
        "ResourceQuota a/old": "left over",
    }
    assert read(Cluster([], [], []), MANIFEST) == {"ResourceQuota a/team": "missing"}


def test_what_kubeadm_installs_is_compared_with_what_it_prints() -> None:
    def newer(one: Any) -> None:
        one["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = "2"
        one["spec"]["containers"][0]["image"] = "kube-proxy:2"

    found = Cluster([changed(DAEMONS, newer)], [DAEMONS], [])
    assert read(found, "kubeadm:/etc/kubernetes/kubeadm.yaml") == {
        "DaemonSet kube-system/kube-proxy": "differs: spec.containers[kube-proxy].image"
    }
    assert found.texts[0].startswith("---"), "the message before the objects is left out"


def test_objects_of_an_unknown_type_are_missing(head: Path) -> None:
    rule = {"apiVersion": "x/v1", "kind": "Rule", "metadata": {"name": "gpus"}}
    (head / MANIFEST[1:]).write_text(plan.manifest([QUOTA, rule]))
    found = Cluster([QUOTA], [QUOTA], [])
    found.unknown = "Rule"
    assert read(found, MANIFEST) == {"Rule gpus": "missing"}


def test_without_an_answer_nothing_is_known(head: Path) -> None:
    found = Cluster([], [], [])
    found.outcome = lambda *argv, **given: (1, "", "refused")  # type: ignore[method-assign]
    with pytest.raises(Unread, match="refused"):
        read(found, MANIFEST)
    with pytest.raises(Unread, match=r"b\.yaml: no such file"):
        read(Cluster([], [], []), "/etc/kubernetes/lockstep/b.yaml")
    (head / reader.ADMIN_CONF[1:]).unlink()
    with pytest.raises(Unread, match="kubeadm has not made the control plane"):
        read(Cluster([], [], []), MANIFEST)
    assert read(Cluster([], [], [])) == {}, "a node without manifests"


def ran(monkeypatch: pytest.MonkeyPatch, found: dict[str, str]) -> list[str]:
    """The commands that the role runs, after such a reading."""
    monkeypatch.setattr(role, "ask", lambda question: found)
    monkeypatch.setattr(of_operations, "host", SimpleNamespace(noop=lambda why: None))
    monkeypatch.setattr(of_operations, "strictly", nullcontext)
    node = plan_of("kubernetes").nodes["head1"]
    return [str(one) for one in role.as_planned._inner(plan=node)]


def test_nothing_is_written_where_nothing_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, {}) == []


def test_left_over_objects_are_deleted_but_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict.fromkeys(("Namespace a", "ClusterRole x", "ResourceQuota a/team"), "left over")
    commands = ran(monkeypatch, found)
    assert [one.partition("20s ")[2].split(" --")[0] for one in commands] == [
        "delete ClusterRole x",
        "-n a delete ResourceQuota team",
    ]


def test_other_objects_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    for how in ("missing", "differs: data.Corefile"):
        *_, addons = ran(monkeypatch, {"ConfigMap kube-system/coredns": how})
        assert "addon coredns" in addons
        assert "apply --server-side --force-conflicts --field-manager=lockstep" in addons
    for how in ("missing", "differs: spec.replicas, spec.template"):
        *_, scaled = ran(monkeypatch, {reader.COREDNS: how})
        assert "scale deployment coredns --replicas=2" in scaled


def test_only_the_first_head_has_the_role() -> None:
    nodes = plan_of("kubernetes").nodes
    assert [name for name in nodes if "kubernetes_objects" in nodes[name].roles] == ["head1"]
    assert plan.object_sources(nodes["head1"])[-1] == plan.OF_KUBEADM
    assert plan.object_sources(nodes["head2"]) == ()


def test_reader_and_plan_use_the_same_words() -> None:
    assert (reader.LABEL, reader.OWNER) == (plan.LABEL, plan.OWNER)
    assert plan.OF_KUBEADM.startswith(reader.OF_KUBEADM)
