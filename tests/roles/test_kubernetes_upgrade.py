"""An upgrade of Kubernetes: a worker waits until every head of the plan has the new version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from lockstep.facts.reboot import Unanswered
from lockstep.roles.steps.reboot.failures import Failed
from lockstep.roles.steps.reboot.pods import Seen
from lockstep.roles.steps.upgrade import Turn
from tests.golden.write import plan_of
from tests.roles.hosts import LoggingHost

NODES = plan_of("kubernetes").nodes
WANTED = f"v{NODES['head1'].kubernetes.settings.version}"
OLDER = "v1.33.13"
REGISTRY = "registry.k8s.io:443/kube-apiserver"


@dataclass
class Cluster:
    """What an API server says of the heads' API servers, as pods that kubelets mirror."""

    heads: dict[str, str]
    version: str = OLDER
    answers: bool = True
    done: list[str] = field(default_factory=list)
    ours: bool = False

    def look(self) -> Seen:
        return Seen(True, ready=True, version=self.version)

    def said(self, command: str) -> str:
        if not self.answers:
            raise Unanswered("no head of Kubernetes' control plane answered")
        assert "--ignore-not-found" in command
        name = command.split("kube-apiserver-")[1].split()[0]
        version = self.heads.get(name, "")
        return version and f"{REGISTRY}:{version}"

    def emptied(self, *_: object) -> bool:
        self.done.append("drained")
        return True

    def released(self, again: str) -> None:
        self.done.append("released")


def turn(cluster: Cluster, node: str) -> Turn:
    made = cast("Any", object.__new__(Turn))
    made.plan, made.pods, made.wanted, made.again = NODES[node], cluster, WANTED, "the same"
    made.host = LoggingHost(node)
    made.rollout = None
    made.talk = type("Talk", (), {"say": lambda self, command, within_s: (True, None)})()
    made._install = lambda *names: cluster.done.append(f"installed {' '.join(names)}")

    def say(command: str, within_s: float, **further: Any) -> list[str]:
        if command.startswith("test -e"):
            return ["yes"]
        if "kubelet.service" in command:
            cluster.version = WANTED
        return []

    made._say = say
    return cast("Turn", made)


def heads(**others: str) -> dict[str, str]:
    return {"head1": WANTED, "head2": WANTED, "head3": WANTED, **others}


def test_a_worker_is_upgraded_after_all_heads() -> None:
    cluster = Cluster(heads())
    turn(cluster, "worker01")._steps()
    assert cluster.done[0] == "installed kubeadm"
    assert cluster.done[-1] == "released"


@pytest.mark.parametrize(
    ("version", "said"), [(OLDER, "the API server v1.33.13"), ("", "of no known version")]
)
def test_a_worker_is_left_alone_while_a_head_is_older(version: str, said: str) -> None:
    """Also if the head is not in the run, or has no API server at all."""
    cluster = Cluster(heads(head2=version))
    with pytest.raises(Failed, match=f"worker01 was not upgraded: head2 runs .*{said}") as failed:
        turn(cluster, "worker01")._steps()
    assert failed.value.then.startswith("repair head2, then run, without --limit: ")
    assert cluster.done == []


def test_heads_that_cannot_be_asked_are_not_taken_for_upgraded() -> None:
    cluster = Cluster(heads(), answers=False)
    with pytest.raises(Unanswered):
        turn(cluster, "worker01")._steps()
    assert cluster.done == []


def test_a_head_does_not_wait_for_the_others() -> None:
    cluster = Cluster(heads(head1=OLDER, head2=OLDER, head3=OLDER))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Turn, "_configured", lambda self: OLDER)
        turn(cluster, "head1")._steps()
    assert "drained" in cluster.done
