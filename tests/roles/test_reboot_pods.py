"""A node of Kubernetes in a rollout: cordoned, drained, and uncordoned by what cordoned it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pyinfra.api import State
from typing_extensions import override

from lockstep.facts.reboot import Unanswered
from lockstep.inventory import planned
from lockstep.node.readers.slurm import OURS
from lockstep.plan.kubernetes import CORDONED
from lockstep.roles import declared
from lockstep.roles.steps.reboot import pods as pods_module
from lockstep.roles.steps.reboot.failures import Failed
from lockstep.roles.steps.reboot.pods import Pods, parsed, unready
from lockstep.roles.steps.reboot.rollout import Rollout
from lockstep.spec import load
from tests.spec.kubernetes_example import description

AGAIN = "the same command"
WHY = "lockstep-reboot: kernel"
CHECKED = "lockstep: gpu.lost"


@dataclass
class Cluster:
    """An API server's answers about one Node."""

    cordoned: bool = False
    mark: str | None = None
    ready: bool = True
    exists: bool = True
    answers: bool = True
    blocked: int = 0
    """How many calls of kubectl drain leave pods behind."""
    said: list[str] = field(default_factory=list)
    failures: int = 0
    """How many calls fail before one succeeds."""
    on_drain: Callable[[Cluster], None] = lambda cluster: None

    def answer(self, command: str) -> tuple[bool, list[str]]:
        if not self.answers:
            raise Unanswered("no head of Kubernetes' control plane answered (head1: gone)")
        self.failures -= 1
        if self.failures >= 0:
            return False, ["Error from server (Forbidden): nodes is forbidden"]
        verb = command.split()[0]
        if verb == "get":
            return True, json.dumps(self.node(), indent=1).splitlines() if self.exists else []
        if verb == "patch":
            patch = json.loads(command.split("--patch '")[1].rstrip("'"))
            self.cordoned = bool(patch["spec"]["unschedulable"])
            self.mark = patch["metadata"]["annotations"][CORDONED]
            self.said.append("cordon" if self.cordoned else "uncordon")
            return True, []
        assert command.startswith("drain worker1 --ignore-daemonsets")
        # Neither kills pods that no controller replaces, nor ignores a disruption budget.
        assert not {"--force", "--disable-eviction"} & set(command.split())
        self.said.append("drain")
        self.on_drain(self)
        self.blocked -= 1
        return (self.blocked < 0, ["Cannot evict pod as it would violate the budget", "timeout"])

    def node(self) -> dict[str, Any]:
        return {
            "metadata": {"annotations": {CORDONED: self.mark} if self.mark else {}},
            "spec": {"unschedulable": True} if self.cordoned else {},
            "status": {
                "conditions": [{"type": "Ready", "status": "True" if self.ready else "Unknown"}],
                "nodeInfo": {"kubeletVersion": "v1.34.4"},
            },
        }


class Answered(Pods):
    """Pods whose commands reach a ``Cluster``."""

    cluster: Cluster

    @override
    def kubectl(self, command: str, within_s: float = 0) -> tuple[bool, list[str]]:
        return self.cluster.answer(command)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def pods_of(cluster: Cluster) -> Answered:
    loaded, problems = load(description(), declared())
    assert loaded is not None, problems
    made = Answered(cast("State", None), planned(loaded).nodes["worker1"], {}, lambda text: None)
    made.cluster = cluster
    return made


def test_a_node_is_cordoned_before_its_pods_are_evicted_and_uncordoned_at_the_end() -> None:
    cluster = Cluster(blocked=2)
    pods = pods_of(cluster)
    assert pods.emptied("lockstep-reboot: kernel", 60, Rollout(), AGAIN)
    assert cluster.mark == "lockstep-reboot: kernel"
    pods.released(AGAIN)
    assert cluster.said == ["cordon", "drain", "drain", "drain", "uncordon"]
    assert cluster.mark is None


def test_an_api_server_that_was_just_restarted_is_asked_again() -> None:
    """It may refuse connections, and then users whose rights it has not read yet."""
    cluster = Cluster(cordoned=True, mark="lockstep-reboot: kernel", failures=3)
    pods_of(cluster).released(AGAIN)
    assert cluster.said == ["uncordon"]


def test_an_api_server_that_refuses_for_a_minute_stops_the_rollout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pods_module, "PATIENCE_S", 0.0)
    with pytest.raises(Failed, match=r"was not uncordoned: kubectl get node: .*Forbidden"):
        pods_of(Cluster(failures=10**6)).released(AGAIN)


def test_what_a_person_has_cordoned_stays_cordoned() -> None:
    cluster = Cluster(cordoned=True)
    pods = pods_of(cluster)
    assert pods.emptied(WHY, 60, Rollout(), AGAIN)
    pods.released(AGAIN)
    assert cluster.said == ["drain"]
    assert cluster.cordoned


def test_a_cordon_of_the_node_check_is_taken_over_and_given_back() -> None:
    """The node check, which uncordons what is its own, leaves it alone meanwhile."""
    seen: list[str | None] = []
    cluster = Cluster(
        cordoned=True, mark=CHECKED, blocked=1, on_drain=lambda found: seen.append(found.mark)
    )
    pods = pods_of(cluster)
    assert pods.emptied(WHY, 60, Rollout(), AGAIN)
    assert seen == [WHY, WHY]
    assert pods.ours
    pods.released(AGAIN)
    assert (cluster.cordoned, cluster.mark, pods.ours) == (True, CHECKED, False)


def test_a_stopped_rollout_gives_a_cordon_back_to_the_node_check() -> None:
    rollout = Rollout()
    stop = Cluster(
        cordoned=True,
        mark=CHECKED,
        blocked=99,
        on_drain=lambda found: rollout.stop("worker2 failed"),
    )
    assert not pods_of(stop).emptied(WHY, 60, rollout, AGAIN)
    assert (stop.cordoned, stop.mark) == (True, CHECKED)


def test_a_node_of_the_node_check_that_a_person_uncordons_is_left_alone() -> None:
    def uncordon(found: Cluster) -> None:
        found.cordoned = False

    cluster = Cluster(cordoned=True, mark=CHECKED, blocked=99, on_drain=uncordon)
    with pytest.raises(Failed, match="worker1 was uncordoned before its pods had ended"):
        pods_of(cluster).emptied(WHY, 60, Rollout(), AGAIN)


def test_the_reasons_of_the_node_check_are_known() -> None:
    assert CHECKED.startswith(OURS)
    assert pods_module.CHECK == OURS


def test_a_rollout_that_did_not_finish_is_continued() -> None:
    cluster = Cluster(cordoned=True, mark="lockstep-reboot: kernel")
    pods = pods_of(cluster)
    assert pods.look().ours
    pods.released(AGAIN)
    assert cluster.said == ["uncordon"]


def test_pods_that_stay_fail_the_node_which_stays_cordoned() -> None:
    cluster = Cluster(blocked=99)
    pods = pods_of(cluster)
    with pytest.raises(Failed, match=r"worker1 still has pods after 0 s .*violate the budget"):
        pods.emptied(WHY, 0, Rollout(), AGAIN)
    assert cluster.said == ["cordon", "drain"]
    assert pods.ours


@pytest.mark.parametrize("recovers", [False, True])
def test_pods_of_a_kubelet_that_is_not_ready_are_not_waited_for_longer(
    monkeypatch: pytest.MonkeyPatch, recovers: bool
) -> None:
    now = [0.0]

    def a_minute_later(found: Cluster) -> None:
        now[0] += 60
        found.ready = recovers and now[0] == 240

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    cluster = Cluster(blocked=99, on_drain=a_minute_later)
    with pytest.raises(
        Failed, match="they cannot end, because its kubelet has not been Ready for 300 s: Cannot"
    ) as failed:
        pods_of(cluster).emptied(WHY, 86400, Rollout(), AGAIN)
    assert failed.value.then == f"deploy worker1, or reboot it by hand; then run: {AGAIN}"
    assert now[0] == (540 if recovers else 300)
    assert cluster.cordoned


def test_a_stopped_rollout_lets_go_of_what_it_cordoned() -> None:
    rollout = Rollout()
    cluster = Cluster(blocked=99, on_drain=lambda found: rollout.stop("worker2 failed"))
    assert not pods_of(cluster).emptied(WHY, 60, rollout, AGAIN)
    assert cluster.said == ["cordon", "drain", "uncordon"]


def test_a_node_that_somebody_uncordons_meanwhile_is_left_alone() -> None:
    def uncordon(found: Cluster) -> None:
        found.cordoned = False

    cluster = Cluster(blocked=99, on_drain=uncordon)
    with pytest.raises(Failed, match="worker1 was uncordoned before its pods had ended"):
        pods_of(cluster).emptied(WHY, 60, Rollout(), AGAIN)


def test_an_api_server_that_does_not_answer_is_never_ok() -> None:
    cluster = Cluster(answers=False)
    pods = pods_of(cluster)
    with pytest.raises(Failed, match="worker1 was not drained: no head"):
        pods.emptied(WHY, 60, Rollout(), AGAIN)
    with pytest.raises(Failed, match="was not uncordoned: no head"):
        pods.released(AGAIN)
    assert "no head" in unready(pods)


def test_a_node_without_a_node_object_has_no_pods() -> None:
    cluster = Cluster(exists=False)
    assert pods_of(cluster).emptied(WHY, 60, Rollout(), AGAIN)
    assert cluster.said == []
    assert unready(pods_of(cluster)) == ""


def test_a_node_that_is_not_ready_does_not_pass() -> None:
    assert unready(pods_of(Cluster(ready=False))) == "its Node object is not Ready"
    assert unready(pods_of(Cluster())) == unready(None) == ""


def test_the_version_of_a_kubelet_is_read() -> None:
    assert parsed(json.dumps(Cluster().node())).version == "v1.34.4"
    assert not parsed("\n").exists
