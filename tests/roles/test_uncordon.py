"""A worker of Kubernetes that a run has repaired takes pods again at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import State
from pyinfra.api.operation import add_op

from lockstep.plan.kubernetes import CORDONED
from lockstep.question import Question
from lockstep.roles.operations import kubernetes_member as member
from lockstep.roles.steps import uncordon
from tests.golden.write import plan_of
from tests.roles.local import Done, noting, run_in_order

WORKER = plan_of("kubernetes").nodes["worker01"]


class Node:
    """A node whose API server and node check are doubles."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = noting("kubectl", folder, monkeypatch)
        self.kubectl, self.told = folder / "bin" / "kubectl", folder / "told"
        self.monkeypatch = monkeypatch
        (folder / "joined").touch()
        monkeypatch.setattr(member, "DONE", f"{folder}/joined")
        monkeypatch.setattr(uncordon, "HEALTH_CHECK", f"echo >>{self.told}")

    def deploy(
        self,
        reason: str,
        *operations: Callable[..., Any],
        healthy: bool = True,
        answers: bool = True,
    ) -> Done:
        """Run operations on a node that is cordoned for a reason."""
        with self.kubectl.open("a", encoding="utf-8") as program:
            program.write(f"echo 'worker01 {reason}'\n" if answers else "exit 1\n")
        health = Question("health", ("files",), lambda taken: healthy, {"files": ("/",)})
        self.monkeypatch.setattr(uncordon, "is_healthy", lambda: health)

        def added(one: Callable[..., Any]) -> Callable[[State], Any]:
            return lambda state: add_op(state, one, plan=WORKER)

        return run_in_order(*map(added, operations))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("reason", "healthy", "told"),
    [
        pytest.param("", True, False, id="takes pods"),
        pytest.param("lockstep: gpu.lost gpu3", True, True, id="repaired"),
        pytest.param("lockstep: gpu.lost gpu3", False, False, id="not repaired"),
        pytest.param("lockstep-reboot: kernel", True, False, id="a rollout's cordon"),
    ],
)
@pytest.mark.parametrize(
    "operations",
    [
        pytest.param((member.registered, uncordon.uncordoned), id="all roles"),
        pytest.param((uncordon.uncordoned,), id="another role alone"),
    ],
)
def test_the_node_check_looks_again_if_it_cordoned_a_node_that_is_healthy(
    node: Node, operations: tuple[Callable[..., Any], ...], reason: str, healthy: bool, told: bool
) -> None:
    done = node.deploy(reason, *operations, healthy=healthy)
    assert (done.succeeded, done.commands) == (True, int(told))
    assert node.told.exists() is told
    (asked,) = node.calls.read_text(encoding="utf-8").splitlines()
    assert CORDONED in asked


def test_a_failure_that_is_left_is_said(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        node.deploy("lockstep: gpu.lost gpu3", uncordon.uncordoned, healthy=False)
    assert "stays cordoned by its own node check: lockstep: gpu.lost gpu3" in caplog.text


def test_without_an_answer_nothing_is_done(node: Node) -> None:
    done = node.deploy("lockstep: gpu.lost gpu3", uncordon.uncordoned, answers=False)
    assert (done.succeeded, done.commands) == (True, 0)
