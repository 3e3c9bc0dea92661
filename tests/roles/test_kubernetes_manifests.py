"""The API server's configuration: what kubeadm gets, and manifests that differ from it."""

from __future__ import annotations

import base64
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typing_extensions import override

from lockstep.files import managed
from lockstep.node.readers import kubernetes_manifests as reader
from lockstep.node.readers import tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes_api import AUDIT, ENCRYPTION
from lockstep.roles.operations import kubernetes_manifests as role
from lockstep.roles.operations import operation as of_operations
from lockstep.secrets import ENCRYPTION_KEY, Secrets
from tests.golden.write import plan_of
from tests.plan.test_kubernetes import planned

KEY = base64.b64encode(bytes(32))
SECRETS = Secrets(bytes(32), "password", None, {ENCRYPTION_KEY: KEY})
HEAD = "head1"


def text(node: NodePlan, path: str) -> str:
    (found,) = (one for one in managed(node, SECRETS) if one.path == path)
    return found.content.decode()


def arguments(node: NodePlan) -> dict[str, str]:
    """The arguments of the API server, in kubeadm's configuration."""
    path = "/etc/kubernetes/lockstep-kubeadm.yaml"
    (cluster,) = (
        one for one in yaml.safe_load_all(text(node, path)) if one["kind"] == "ClusterConfiguration"
    )
    return {one["name"]: one["value"] for one in cluster["apiServer"]["extraArgs"]}


def test_secrets_are_encrypted_with_the_cluster_s_key() -> None:
    node = planned().nodes[HEAD]
    assert arguments(node)["encryption-provider-config"] == ENCRYPTION
    (file,) = (one for one in managed(node, SECRETS) if one.path == ENCRYPTION)
    assert (file.mode, file.secret) == ("600", True)
    (rule,) = yaml.safe_load(file.content)["resources"]
    first, second = rule["providers"]
    assert rule["resources"] == ["secrets"]
    assert first["secretbox"]["keys"] == [{"name": "lockstep", "secret": KEY.decode()}]
    assert second == {"identity": {}}


def test_the_audit_log_has_no_contents_and_is_limited() -> None:
    node = planned().nodes[HEAD]
    levels = {rule["level"] for rule in yaml.safe_load(text(node, AUDIT))["rules"]}
    assert levels == {"None", "Metadata"}
    limits = {name: value for name, value in arguments(node).items() if "max" in name}
    assert limits == {
        "audit-log-maxage": "30",
        "audit-log-maxbackup": "10",
        "audit-log-maxsize": "100",
    }


def test_without_an_audit_log_there_is_no_policy() -> None:
    node = planned(change=lambda wanted: wanted["scheduler"].update(audit=None)).nodes[HEAD]
    assert not [name for name in arguments(node) if name.startswith("audit")]
    assert AUDIT not in node.system.paths()


def test_every_head_has_what_its_api_server_reads() -> None:
    nodes = plan_of("kubernetes").nodes
    have = [name for name, node in nodes.items() if {AUDIT, ENCRYPTION} <= {*node.system.paths()}]
    assert have == ["head1", "head2", "head3"]


class Kubeadm(Commands):
    """A kubeadm that writes one manifest to the folder of a dry run."""

    @override
    def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
        assert argv[-1] == "--dry-run"
        folder = argv[1].partition("=")[2]
        Path(folder, "kube-apiserver.yaml").write_text("a: 1\n- --audit-log-maxage=30\n")
        return 0, "", ""


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        ("a: 1\n- --audit-log-maxage=30\n", {}),
        (None, {"kube-apiserver": "missing"}),
        (
            "a: 1\n- --audit-log-maxage=7\n",
            {
                "kube-apiserver": "differs: lacks '- --audit-log-maxage=30', "
                "has '- --audit-log-maxage=7'"
            },
        ),
        (
            "- --audit-log-maxage=30\na: 1\n",
            {"kube-apiserver": "differs: the order of its lines"},
        ),
    ],
)
def test_a_manifest_that_kubeadm_would_write_otherwise_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: str | None, found: dict[str, str]
) -> None:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    for path in (reader.DONE, f"{reader.MANIFESTS}/kube-apiserver.yaml"):
        (tmp_path / path[1:]).parent.mkdir(parents=True)
    (tmp_path / reader.DONE[1:]).touch()
    if manifest is not None:
        (tmp_path / f"{reader.MANIFESTS}/kube-apiserver.yaml"[1:]).write_text(manifest)
    asked = {"kubeadm": ["/etc/kubernetes/kubeadm.yaml"]}
    assert reader.read_manifests(asked, Kubeadm()) == {"kubernetes.manifests": found}


def test_before_kubeadm_has_run_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    with pytest.raises(Unread, match="kubeadm has not made the control plane"):
        reader.read_manifests({"kubeadm": ["/etc/kubernetes/kubeadm.yaml"]}, Kubeadm())


def ran(monkeypatch: pytest.MonkeyPatch, found: Any, name: str = HEAD) -> list[str]:
    monkeypatch.setattr(role, "ask", lambda question: found)
    monkeypatch.setattr(role, "host", SimpleNamespace(state=SimpleNamespace(is_executing=False)))
    monkeypatch.setattr(of_operations, "host", SimpleNamespace(noop=lambda why: None))
    monkeypatch.setattr(of_operations, "strictly", nullcontext)
    node = plan_of("kubernetes").nodes[name]
    return [str(one) for one in role.as_configured._inner(plan=node)]


def test_manifests_are_written_only_where_one_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, {}) == []
    upload, write = ran(monkeypatch, {"kube-apiserver": "missing"})
    assert "upload-config kubeadm" in upload
    assert "control-plane all" in write
    assert len(ran(monkeypatch, {"kube-apiserver": "missing"}, "head2")) == 1


WAITS = """
kubeadm() {{ echo written >>{state}/log; }}
sleep() {{ echo "slept $1" >>{state}/log; {while_waiting}; }}
crictl() {{ cat {state}/running; }}
kubectl() {{ echo "$*" >>{state}/asked; {ready}; }}
date() {{ echo $(cat {state}/now); }}
"""
PASSES = "expr $(cat {state}/now) + {seconds} >{state}/later; mv {state}/later {state}/now"


@pytest.mark.parametrize(
    ("seconds", "while_waiting", "ready", "status", "said"),
    [
        (1, "echo new >{state}/running", "true", 0, ""),
        (31, "true", "true", 0, ""),  # another comment: the old container stays
        (31, "true", "false", 1, "not ready after 150 s"),
        (10, "echo new >{state}/running", "false", 1, "API server of head1 was not ready"),
        # An image that cannot be pulled, and one that another API server would not show.
        (10, ": >{state}/running", "true", 1, "crictl ps --all"),
        # An argument that is wrong: each look finds another container.
        (10, "cat {state}/now >{state}/running", "true", 1, "crictl ps --all"),
        (10, "printf 'old\\nnew\\n' >{state}/running", "true", 1, "crictl ps --all"),
        (10, "rm -f {state}/running", "true", 1, "crictl ps --all"),
    ],
)
def test_it_waits_for_a_new_container_and_the_head_s_own_api_server_and_not_for_ever(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    while_waiting: str,
    ready: str,
    status: int,
    said: str,
) -> None:
    *_, command = ran(monkeypatch, {"kube-apiserver": "differs: x"})
    (tmp_path / "running").write_text("old\n")
    (tmp_path / "now").write_text("100\n")
    meanwhile = f"{PASSES}; {while_waiting}".format(state=tmp_path, seconds=seconds)
    before = WAITS.format(state=tmp_path, while_waiting=meanwhile, ready=ready)
    done = subprocess.run(
        ["sh", "-c", before + command], capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert (tmp_path / "log").read_text().splitlines()[:2] == ["written", "slept 1"]
    asked = tmp_path / "asked"
    own = "--server=https://[fd5a:7c1e:1000::11]:6443 "
    assert all(own in line for line in asked.read_text().splitlines()) if asked.exists() else status


def test_nothing_is_written_if_the_running_containers_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, command = ran(monkeypatch, {"kube-apiserver": "differs: x"})
    (tmp_path / "now").write_text("100\n")
    before = WAITS.format(state=tmp_path, while_waiting="exit 9", ready="true")
    done = subprocess.run(["sh", "-c", before + command], capture_output=True, check=False)
    assert done.returncode == 1
    assert not (tmp_path / "log").exists()
