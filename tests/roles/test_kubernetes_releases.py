"""Helm releases: the reading says what is not as planned, and the role repairs it."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from lockstep.node.readers import kubernetes_releases as reader
from lockstep.node.readers import tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.plan import kubernetes_releases as plan
from lockstep.plan.kubernetes import ADMIN_CONF
from lockstep.roles.operations import kubernetes_releases as role
from lockstep.roles.operations import operation as of_operations
from tests.golden.write import plan_of
from tests.roles.local import noting

SOURCE = "gpu-operator/gpus"
VALUES = {"gfd": {"enabled": True}}
MADE = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "plugin", "namespace": "gpu-operator", "labels": {"a": "b"}},
    "spec": {"replicas": 1},
}
OF_HELM = {
    **MADE,
    "metadata": {
        "name": "plugin",
        "namespace": "gpu-operator",
        "labels": {"a": "b", "app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "meta.helm.sh/release-name": "gpus",
            "meta.helm.sh/release-namespace": "gpu-operator",
        },
    },
}


def secret(revision: int, status: str = "deployed", values: object = VALUES) -> dict[str, Any]:
    """A revision as Helm keeps it."""
    made = {
        "chart": {"metadata": {"name": "gpu-operator", "version": "v26.7.0"}},
        "info": {"status": status},
        "config": values,
        "manifest": "---\nkind: DaemonSet\n",
    }
    packed = base64.b64encode(gzip.compress(json.dumps(made).encode()))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"sh.helm.release.v1.gpus.v{revision}",
            "labels": {"version": str(revision)},
        },
        "data": {"release": base64.b64encode(packed).decode()},
    }


class Cluster(Commands):
    """A kubectl that has revisions of a release, and its objects."""

    def __init__(self, revisions: list[Any], live: list[Any], applied: list[Any]) -> None:
        super().__init__()
        self.revisions, self.live, self.applied = revisions, live, applied
        self.compared: list[Any] = []

    @override
    def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
        if "secrets" in argv:
            assert "--selector=owner=helm,name=gpus" in argv
            return 0, listed(self.revisions), ""
        if "create" in argv:
            assert "--namespace=gpu-operator" in argv
            return 0, json.dumps(MADE), ""
        if "apply" in argv:
            assert "--field-manager=helm" in argv
            assert "--dry-run=server" in argv
            self.compared = json.loads(text)["items"]
            return 0, listed(self.applied), ""
        return 0, listed(self.live), ""


def listed(objects: list[Any]) -> str:
    return json.dumps({"kind": "List", "items": objects})


@pytest.fixture(autouse=True)
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    folder = tmp_path / reader.FOLDER[1:]
    folder.mkdir(parents=True)
    (tmp_path / ADMIN_CONF[1:]).touch()
    (folder / "gpus.yaml").write_text(f"# A comment.\n{json.dumps(VALUES)}\n")
    return tmp_path


def read(cluster: Cluster, *names: str) -> Any:
    return reader.read_releases({"releases": [*names]}, cluster)["kubernetes.releases"]


def test_a_release_that_nobody_changed_is_as_planned() -> None:
    older = [secret(1, "superseded", {}), secret(2, "superseded")]
    found = Cluster([older[0], secret(10), older[1]], [OF_HELM], [OF_HELM])
    (release,) = plan.releases(plan_of("kubernetes").nodes["head1"])
    assert read(found, SOURCE) == {SOURCE: release.planned}
    assert found.compared == [OF_HELM], "what Helm adds is no difference"


def test_a_changed_object_other_values_and_an_interruption_are_named() -> None:
    other = {**OF_HELM, "spec": {"replicas": 2}}
    found = read(Cluster([secret(1, "pending-upgrade", {})], [other], [OF_HELM]), SOURCE)
    assert found[SOURCE] == {
        "chart": "gpu-operator-v26.7.0",
        "status": "pending-upgrade",
        "values": "differ",
        "objects": {"DaemonSet gpu-operator/plugin": "differs: spec.replicas"},
    }
    gone = read(Cluster([secret(1)], [], []), SOURCE)
    assert gone[SOURCE]["objects"] == {"DaemonSet gpu-operator/plugin": "missing"}


def test_values_that_are_not_written_yet_differ(head: Path) -> None:
    (head / reader.FOLDER[1:] / "gpus.yaml").unlink()
    assert read(Cluster([secret(1)], [OF_HELM], [OF_HELM]), SOURCE)[SOURCE]["values"] == "differ"


def test_a_release_that_helm_does_not_know_is_missing() -> None:
    assert read(Cluster([], [], []), SOURCE) == {SOURCE: {"status": "missing"}}


def test_without_an_answer_nothing_is_known(head: Path) -> None:
    damaged = secret(1)
    damaged["data"]["release"] = base64.b64encode(b"no release").decode()
    with pytest.raises(Unread, match=r"gpu-operator/gpus: Helm's record .* is not readable"):
        read(Cluster([damaged], [], []), SOURCE)
    (head / ADMIN_CONF[1:]).unlink()
    with pytest.raises(Unread, match="kubeadm has not made the control plane"):
        read(Cluster([], [], []), SOURCE)
    assert read(Cluster([], [], [])) == {}, "a node that installs no releases"


def ran(monkeypatch: pytest.MonkeyPatch, **other: object) -> list[str]:
    """The commands that the role runs after such a reading."""
    node = plan_of("kubernetes").nodes["head1"]
    (release,) = plan.releases(node)
    found = {release.source: {**release.planned, **other}}
    monkeypatch.setattr(role, "ask", lambda question: found)
    monkeypatch.setattr(of_operations, "host", SimpleNamespace(noop=lambda why: None))
    monkeypatch.setattr(of_operations, "strictly", nullcontext)
    return [str(one) for one in role.as_planned._inner(plan=node)]


def test_nothing_is_written_where_nothing_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch) == []


@pytest.mark.parametrize(
    "other",
    [
        {"chart": "gpu-operator-v26.3.0"},
        {"status": "failed"},
        {"values": "differ"},
        {"objects": {"DaemonSet gpu-operator/plugin": "missing"}},
    ],
)
def test_what_differs_is_installed_again(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, object]
) -> None:
    (command,) = ran(monkeypatch, **other)
    assert "upgrade --install gpus gpu-operator --namespace gpu-operator" in command


def test_an_interrupted_revision_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten, installed = ran(monkeypatch, status="pending-install")
    assert "delete secrets --selector owner=helm,name=gpus,status=pending-install" in forgotten
    assert "upgrade --install" in installed


@pytest.mark.parametrize(
    ("version", "status", "said"),
    [
        ("v4.3.1", 0, ""),
        ("v3.19.0", 1, "Helm v3.19.0 is installed on head1, and Lockstep needs Helm 4. Next: "),
    ],
)
def test_another_helm_is_named_before_it_refuses_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, status: int, said: str
) -> None:
    (command,) = ran(monkeypatch, status="failed")
    calls = noting("helm", tmp_path, monkeypatch)
    with (tmp_path / "bin" / "helm").open("a", encoding="utf-8") as program:
        program.write(f"echo {version}\n")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr[: len(said)]) == (status, said)
    assert ("upgrade" in calls.read_text(encoding="utf-8")) is (status == 0)


def test_new_pods_are_awaited_but_a_lost_node_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two waits ends, with an error, once the other one has begun."""
    (command,) = ran(monkeypatch, status="failed")
    calls = noting("helm", tmp_path, monkeypatch)
    programs, kubectl = tmp_path / "bin", tmp_path / "bin" / "kubectl"
    with (programs / "helm").open("a", encoding="utf-8") as program:
        program.write("echo v4.0.0\n")
    named = 'case "$*" in *" get daemonsets "*) echo daemonset.apps/a daemonset.apps/b; exit;; esac'
    both = f"for i in $(seq 50); do [ $(grep -c apps/[ab] {calls}) = 2 ] && exit 1; sleep 0.1; done"
    alone = f"touch {tmp_path}/alone"
    kubectl.write_text(
        f'#!/bin/sh\necho "$@" >> {calls}\n{named}\n{both}\n{alone}\n', encoding="utf-8"
    )
    kubectl.chmod(0o755)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "alone").exists()
    *_, upgrade, _, one, two = calls.read_text(encoding="utf-8").splitlines()
    assert "upgrade --install gpus" in upgrade
    assert "--namespace gpu-operator" in one
    assert {line.partition("rollout ")[2] for line in (one, two)} == {
        "status daemonset.apps/a --timeout=60s",
        "status daemonset.apps/b --timeout=60s",
    }


def test_reader_and_plan_use_the_same_words() -> None:
    (release,) = plan.releases(plan_of("kubernetes").nodes["head1"])
    assert release.path == f"{reader.FOLDER}/gpus.yaml"
