"""The control plane of several heads: one that was reset or replaced joins again."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.facts.reboot import Unanswered
from lockstep.plan.kubernetes import DONE, KUBELET_CONF
from lockstep.roles.operations import kubernetes_heads as heads
from lockstep.roles.operations import kubernetes_member as member
from lockstep.roles.operations import operation as of_operations
from tests.golden.write import plan_of

PLAN = plan_of("kubernetes")


class Heads:
    """The other heads: what each says, or that it does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
        self.answers, self.asked = answers, list[tuple[str, str]]()
        inventory = SimpleNamespace(get_host=lambda name, default: name)
        monkeypatch.setattr(
            heads, "host", SimpleNamespace(state=SimpleNamespace(inventory=inventory))
        )
        monkeypatch.setattr(heads, "Conversation", lambda name, arguments: self._of(name))

    def _of(self, name: str) -> Any:
        def say(command: str, within_s: float, **further: Any) -> tuple[bool, Any]:
            self.asked.append((name, command))
            answer = self.answers[name]
            if answer is None:
                raise Unanswered("no answer within 60 s")
            worked = isinstance(answer, list)
            lines = answer if worked else [answer]
            return worked, SimpleNamespace(
                stdout_lines=lines if worked else [], stderr_lines=[] if worked else lines
            )

        return SimpleNamespace(say=say)


def test_a_replaced_first_head_finds_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    Heads(monkeypatch, head2=None, head3=["yes"])
    assert heads.member(PLAN.nodes["head1"], {}) == "head3"
    Heads(monkeypatch, head2=["no"], head3=["no"])
    assert heads.member(PLAN.nodes["head1"], {}) == ""


@pytest.mark.parametrize("silent", [None, "sudo: not allowed"])
def test_no_second_cluster_is_made_while_a_head_is_silent(
    monkeypatch: pytest.MonkeyPatch, silent: str | None
) -> None:
    Heads(monkeypatch, head2=["no"], head3=silent)
    with pytest.raises(Unanswered, match=r"unknown, so none was made \(head3: "):
        heads.member(PLAN.nodes["head1"], {})


def test_the_next_head_helps_where_one_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    others = Heads(monkeypatch, head1=None, head2="error: no quorum", head3=["done"])
    assert heads.said(PLAN.nodes["worker01"], {}, "ask {address}") == ["done"]
    assert others.asked[-1] == ("head3", f"{heads.IS_MEMBER} && {{ ask [fd5a:7c1e:1000::13]; }}")
    Heads(monkeypatch, head1=None, head2=None, head3="error: no quorum")
    with pytest.raises(Unanswered, match="no quorum"):
        heads.said(PLAN.nodes["worker01"], {}, "ask")


def test_only_a_head_is_removed_from_etcd(monkeypatch: pytest.MonkeyPatch) -> None:
    others = Heads(monkeypatch, head1=[], head2=[])
    heads.forget(PLAN.nodes["worker01"], {})
    heads.forget(PLAN.nodes["head1"], {})
    (_, worker), (asked, head) = others.asked
    assert "delete node worker01" in worker
    assert "etcdctl" not in worker
    assert asked == "head2"
    assert "-v url='https://[fd5a:7c1e:1000::11]:2380'" in head
    assert head.index("member remove") < head.index("delete node head1")


def decided(
    monkeypatch: pytest.MonkeyPatch, operation: Any, name: str = "head1", **further: Any
) -> list[Any]:
    monkeypatch.setattr(of_operations, "host", SimpleNamespace(noop=lambda why: None))
    monkeypatch.setattr(of_operations, "strictly", nullcontext)
    return list(operation._inner(plan=PLAN.nodes[name], **further))


def test_only_a_head_that_has_joined_starts_coredns_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "_join", lambda plan, secrets: iter(["kubeadm join"]))
    monkeypatch.setattr(
        member, "host", SimpleNamespace(state=SimpleNamespace(is_executing=True), log=None)
    )

    def commands(name: str, there: set[str]) -> list[str]:
        monkeypatch.setattr(member, "ask", lambda question: frozenset(there))
        found = decided(monkeypatch, member.joined, name, secrets=None)
        return [str(one) for one in found]

    join, spread = commands("head2", set())
    assert join == "kubeadm join"
    assert "wait node head2 --for=condition=Ready" in spread
    assert "rollout restart" in spread
    assert commands("head2", {DONE, KUBELET_CONF}) == []
    assert commands("worker01", set()) == ["kubeadm join"]
