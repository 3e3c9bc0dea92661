"""A node leaves Kubernetes only if Lockstep made it a member, and if no pods of users run there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.inventory import planned
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import (
    ADMIN_CONF,
    BEGUN,
    CNI_PROGRAMS,
    DONE,
    ETCD_DATA,
    KUBELET_CONF,
    STATE,
)
from lockstep.roles import declared
from lockstep.roles.operations import kubernetes_leaving as leaving
from lockstep.roles.operations.kubernetes_member import RESET_CONFIGURATION
from lockstep.spec import load
from tests.checks import recorded
from tests.golden.write import plan_of

PLAN = recorded.consistent().plan.nodes["worker3"]
MEMBER = plan_of("kubernetes").nodes["worker01"]
KUBELET = "/var/lib/kubelet/config.yaml"
ETCD = f"{ETCD_DATA}/member"
ETCD_STAYS = 'echo "W1 [reset] Failed to remove etcd member: x" >&2'
NOT_FETCHED = 'echo "W1 [reset] Unable to fetch the kubeadm-config ConfigMap" >&2'


def pod(name: str, *, daemon: bool = False, source: str = "api") -> dict[str, Any]:
    """A sandbox as crictl lists it."""
    labels = {"pod-template-generation": "1", "controller-revision-hash": "x"} if daemon else {}
    annotations = {"kubernetes.io/config.source": source}
    metadata = {"attempt": 0, "name": name, "namespace": "a", "uid": "1"}
    return {"annotations": annotations, "labels": labels, "metadata": metadata}


OF_THE_NODE = [pod("kube-proxy-x", daemon=True), pod("etcd-head1", source="file")]


@pytest.mark.parametrize(
    ("plan", "there", "undone"),
    [
        pytest.param(PLAN, {DONE, KUBELET_CONF, KUBELET}, True, id="member"),
        pytest.param(PLAN, {BEGUN, KUBELET}, True, id="interrupted"),
        pytest.param(PLAN, {DONE}, True, id="reset by a person"),
        pytest.param(PLAN, {KUBELET_CONF, KUBELET}, False, id="of another cluster"),
        pytest.param(PLAN, set(), False, id="never a member"),
        pytest.param(MEMBER, {DONE, KUBELET_CONF, KUBELET}, False, id="still planned"),
    ],
)
def test_only_a_membership_that_lockstep_made_is_undone(
    monkeypatch: pytest.MonkeyPatch, plan: NodePlan, there: set[str], undone: bool
) -> None:
    monkeypatch.setattr(leaving, "ask", lambda question: frozenset(there))
    assert leaving.membership(plan) == (there if undone else set())


@pytest.mark.parametrize("unmanaged", ["all", *leaving.ROLES])
def test_what_the_site_manages_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, unmanaged: str
) -> None:
    cluster, problems = load({**recorded.DESCRIPTION, "unmanaged": [unmanaged]}, declared())
    assert cluster is not None, problems
    plan = planned(cluster, inventory="inventories/recorded.py").nodes["worker3"]
    monkeypatch.setattr(leaving, "ask", lambda question: frozenset({DONE, KUBELET}))
    assert not leaving.membership(plan)


def test_the_user_sees_what_a_reset_ends() -> None:
    worker, head = frozenset({DONE, KUBELET}), frozenset({DONE, KUBELET, ADMIN_CONF})
    assert leaving.described(PLAN, worker, "").endswith("(kubeadm reset: its pods)")
    assert ETCD_DATA in leaving.described(PLAN, head, "")
    assert leaving.described(PLAN, head, "jobs run").endswith("waits: jobs run")
    assert "was reset already" in leaving.described(PLAN, frozenset({DONE}), "")
    left = leaving.described(PLAN, frozenset({DONE, leaving.LEFT}), "")
    assert left.startswith("left: what an earlier kubeadm reset left")


def commands(
    monkeypatch: pytest.MonkeyPatch, *there: str, why: str = "", executes: bool = True
) -> list[str]:
    """Return the commands for a node with these paths; a refusal as its text."""

    @contextmanager
    def turn(plan: NodePlan, this: Any, arguments: Any, *, etcd: bool) -> Iterator[str]:
        assert etcd
        yield why

    inventory = SimpleNamespace(get_host=lambda name: name)
    state = SimpleNamespace(is_executing=executes, inventory=inventory)
    monkeypatch.setattr(leaving, "host", SimpleNamespace(name=PLAN.name, state=state))
    monkeypatch.setattr(leaving, "connector_arguments", lambda host: {})
    monkeypatch.setattr(leaving, "refusal", lambda why: why)
    monkeypatch.setattr(leaving, "turn", turn)
    return [str(one) for one in leaving.undone(PLAN, frozenset(there))]


def test_a_head_waits_until_the_other_heads_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    head = (DONE, KUBELET, ETCD, ADMIN_CONF)
    assert commands(monkeypatch, *head, why="left alone") == ["left alone"]
    assert "kubeadm reset" in commands(monkeypatch, *head)[0]
    assert "kubeadm reset" in commands(monkeypatch, DONE, KUBELET, why="left alone")[0]


def test_another_etcd_keeps_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    (why,) = commands(monkeypatch, DONE, KUBELET, ETCD)
    assert f"was not reset: {ETCD} has data of an etcd" in why
    assert "Next: " in why


def test_a_preview_contacts_no_other_head(monkeypatch: pytest.MonkeyPatch) -> None:
    head = (DONE, KUBELET, ADMIN_CONF)
    assert commands(monkeypatch, *head, why="asked", executes=False) == ["kubeadm reset"]


@dataclass(frozen=True)
class Node:
    """The folders of a node below another root, and doubles of the programs that a reset calls."""

    root: Path

    def __post_init__(self) -> None:
        """Make a member of Kubernetes."""
        for folder in (STATE, CNI_PROGRAMS, "/bin"):
            (self.root / folder[1:]).mkdir(parents=True)
        (self.root / DONE[1:]).touch()
        (self.root / CNI_PROGRAMS[1:] / "ptp").touch()
        self.double("kubeadm", f"test -e {self.root}{leaving.OTHER_CNI_PROGRAMS}/ptp && cat")
        self.double("nft", '[ "$*" != "list table ip kube-proxy" ]')
        self.lists(*OF_THE_NODE)

    def double(self, name: str, script: str) -> None:
        """Replace a program by a script; it notes how it was called."""
        path = self.root / "bin" / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.root}/said\n{script}\n')
        path.chmod(0o755)

    def lists(self, *ready: dict[str, Any], after: str = "") -> None:
        """Have crictl list these pods, and others after the reset."""
        listed = json.dumps({"items": ready})
        self.double("crictl", f"case \"$*\" in *json*) echo '{listed}';; *) {after or ':'};; esac")

    def execute(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command, with the configuration of the reset on standard input."""
        for folder in (STATE, CNI_PROGRAMS, leaving.OTHER_CNI_PROGRAMS):
            command = command.replace(folder, f"{self.root}{folder}")
        environment = {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        return subprocess.run(
            ["sh", "-c", command],
            input=RESET_CONFIGURATION,
            env=environment,
            capture_output=True,
            text=True,
        )

    def reset(self, monkeypatch: pytest.MonkeyPatch) -> subprocess.CompletedProcess[str]:
        """Reset a worker."""
        (command,) = commands(monkeypatch, DONE, KUBELET)
        return self.execute(command)

    @property
    def said(self) -> list[str]:
        """The calls of kubeadm and nft, in order."""
        path = self.root / "said"
        lines = path.read_text().splitlines() if path.exists() else []
        return [one for one in lines if not one.startswith("crictl")]

    @property
    def noted(self) -> bool:
        """Whether the node still has the note of its membership."""
        return (self.root / DONE[1:]).exists()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


RESET = "kubeadm reset --config /dev/stdin"
OF_NETWORK = [f"nft {verb} table {f} kube-proxy" for f, verb in (("ip", "list"), ("ip6", "list"))]


def test_a_worker_is_reset_and_its_traces_go(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    done = node.reset(monkeypatch)
    assert (done.returncode, done.stderr) == (0, "")
    assert node.said == [RESET, *OF_NETWORK, "nft delete table ip6 kube-proxy"]
    assert not node.noted
    assert not (node.root / leaving.OTHER_CNI_PROGRAMS[1:]).exists()


def test_a_node_with_pods_of_users_is_left_alone(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.lists(*OF_THE_NODE, *(pod(f"job{number}") for number in range(7)))
    done = node.reset(monkeypatch)
    assert done.returncode == 1
    assert "it has pods: a/job0, a/job1, a/job2, a/job3, a/job4, 2 more. Next: " in done.stderr
    assert f"drain {PLAN.name} --ignore-daemonsets" in done.stderr
    assert node.said == []
    assert node.noted


def test_pods_that_cannot_be_listed_are_not_none(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.double("crictl", "exit 1")
    done = node.reset(monkeypatch)
    assert done.returncode == 1
    assert "systemctl start containerd" in done.stderr
    assert node.said == []


def test_a_missing_program_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    (node.root / "bin/kubeadm").unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = node.reset(monkeypatch)
    assert done.returncode == 1
    assert "lacks kubeadm or crictl" in done.stderr
    assert node.noted


@pytest.mark.parametrize(
    ("kubeadm", "after", "said"),
    [
        ("echo no >&2; exit 1", "", "kubeadm reset failed on worker3: no. Next: "),
        (":", "echo 1a2b", "kubeadm reset left pods on worker3"),
        (":", "exit 1", "kubeadm reset left pods on worker3"),
        (ETCD_STAYS, "", "worker3 may still be a member of etcd: W1 [reset] Failed"),
        (NOT_FETCHED, "", "worker3 may still be a member of etcd: W1 [reset] Unable"),
    ],
)
def test_what_a_reset_leaves_behind_is_named(
    node: Node, monkeypatch: pytest.MonkeyPatch, kubeadm: str, after: str, said: str
) -> None:
    node.double("kubeadm", kubeadm)
    node.lists(*OF_THE_NODE, after=after)
    done = node.reset(monkeypatch)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Next: " in done.stderr
    assert node.noted


@pytest.mark.parametrize("kubeadm", [ETCD_STAYS, ":"], ids=["member of etcd", "pods"])
def test_what_a_reset_left_is_named_until_a_person_has_removed_it(
    node: Node, monkeypatch: pytest.MonkeyPatch, kubeadm: str
) -> None:
    node.double("kubeadm", kubeadm)
    node.lists(*OF_THE_NODE, after="" if kubeadm == ETCD_STAYS else "echo 1a2b")
    first = node.reset(monkeypatch)
    left = node.root / leaving.LEFT[1:]
    assert left.read_text(encoding="utf-8") == first.stderr
    assert f"then rm {leaving.LEFT} on worker3" in first.stderr.replace(str(node.root), "")
    (command,) = commands(monkeypatch, DONE, leaving.LEFT)
    again = node.execute(command)
    assert (again.returncode, again.stderr) == (1, first.stderr)
    assert node.noted


def test_a_node_that_a_person_has_reset_loses_only_the_note(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    (command,) = commands(monkeypatch, DONE)
    assert node.execute(command).returncode == 0
    assert RESET not in node.said
    assert not node.noted
