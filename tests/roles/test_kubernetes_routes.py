"""Routes to the pods of other nodes, and labels of nodes: made again where they differ."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.plan import NodePlan
from lockstep.roles.operations import kubernetes_node, kubernetes_objects, operation
from tests.golden.write import plan_of


@pytest.fixture(autouse=True)
def no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations run without a host of pyinfra's."""
    monkeypatch.setattr(operation, "host", SimpleNamespace(noop=lambda why: None))
    monkeypatch.setattr(operation, "strictly", nullcontext)


def node(name: str) -> NodePlan:
    return plan_of("kubernetes").nodes[name]


def routes(monkeypatch: pytest.MonkeyPatch, found: dict[str, str]) -> list[str]:
    monkeypatch.setattr(kubernetes_node, "ask", lambda question: found)
    return [str(one) for one in kubernetes_node.routes_made._inner(plan=node("worker03"))]


def test_routes_as_planned_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = dict(node("worker03").kubernetes.routes)
    assert len(planned) == 18
    assert routes(monkeypatch, planned) == []


def test_a_lost_a_wrong_and_a_further_route_are_put_right(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = dict(node("worker03").kubernetes.routes)
    first = min(planned)
    lost = {key: value for key, value in planned.items() if key != first}
    for found in (lost, {**planned, first: "fd00::9"}, {**planned, "fd00:9::/64": "fd00::9"}):
        assert routes(monkeypatch, found) == ["systemctl restart lockstep-pod-routes.service"]


def labels(monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any]) -> list[str]:
    monkeypatch.setattr(kubernetes_objects, "ask", lambda question: seen)
    return [
        str(one).partition("20s ")[2]
        for one in kubernetes_objects.labelled._inner(plan=node("head1"))
    ]


def test_planned_labels_are_set_and_others_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    right = {"labels": {"lockstep/hardware-class": "hgx-h200", "mine": "1"}}
    wrong = {"labels": {"lockstep/hardware-class": "x"}}
    assert labels(monkeypatch, {"worker01": right, "unknown": wrong}) == []
    assert labels(monkeypatch, {"worker01": wrong, "worker02": {"labels": {}}}) == [
        "label --overwrite node worker01 lockstep/hardware-class=hgx-h200",
        "label --overwrite node worker02 lockstep/hardware-class=hgx-h200",
    ]
