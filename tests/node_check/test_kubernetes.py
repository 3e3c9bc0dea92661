"""How the node check takes a worker of Kubernetes out of service, and brings it back."""

from __future__ import annotations

import copy
import json
import syslog
import time
from collections.abc import Callable
from typing import Any

import pytest

from lockstep.checks import kubernetes_views, local
from lockstep.node.check import kubernetes, program
from lockstep.node.check.judge import Result
from lockstep.node.check.kubernetes import CONDITION, CORDONED, bring_back, take_out
from lockstep.node.readers.kubernetes import Conflict
from lockstep.node.readers.reading import Unread
from lockstep.plan import kubernetes as plan_kubernetes
from lockstep.roles.steps.reboot.decision import OURS
from tests.golden.write import plan_of

FAILED = [Result("gpu.lost", "gpu3", "1 lost", "0 lost")]
TEXT = "lockstep: gpu.lost gpu3: found 1 lost, expected 0 lost"
PATH = "/api/v1/nodes/worker1"


class Server:
    """An API server with one node, which takes patches as strategic merge patches are taken."""

    def __init__(self) -> None:
        ready = {"type": "Ready", "status": "True"}
        self.node: dict[str, Any] = {
            "metadata": {"name": "worker1", "resourceVersion": "1"},
            "spec": {},
            "status": {"conditions": [ready]},
        }
        self.patches: list[str] = []
        self.meanwhile: list[Callable[[], None]] = []
        """What another program does, before each attempt to cordon or uncordon the node."""

    def ask(self, path: str, method: str = "GET", body: Any = None, kind: str = "") -> Any:
        assert path.startswith(PATH)
        if method == "GET":
            return copy.deepcopy(self.node)
        assert (method, kind) == ("PATCH", "application/strategic-merge-patch+json")
        self.patches.append(path)
        metadata = dict(body.get("metadata", {}))
        if "annotations" in metadata and self.meanwhile:
            self.meanwhile.pop(0)()
        sent = metadata.pop("resourceVersion", None)
        if sent not in (None, self.node["metadata"]["resourceVersion"]):
            raise Conflict("the API server answered 409: the object has been modified")
        body = {**body, "metadata": metadata}
        self.changed()
        for part in ("metadata", "spec"):
            self._merge(self.node[part], body.get(part, {}))
        for row in body.get("status", {}).get("conditions", ()):
            assert path.endswith("/status")
            rows = self.node["status"]["conditions"]
            rows[:] = [one for one in rows if one["type"] != row["type"]] + [row]
        return copy.deepcopy(self.node)

    def changed(self) -> None:
        version = int(self.node["metadata"]["resourceVersion"])
        self.node["metadata"]["resourceVersion"] = str(version + 1)

    def _merge(self, into: dict[str, Any], change: dict[str, Any]) -> None:
        for key, value in change.items():
            if isinstance(value, dict):
                self._merge(into.setdefault(key, {}), value)
            elif value is None:
                into.pop(key, None)
            else:
                into[key] = value

    @property
    def condition(self) -> tuple[str, str]:
        (row,) = (one for one in self.node["status"]["conditions"] if one["type"] == CONDITION)
        return row["status"], row["message"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(kubernetes, "Api", lambda conf: made)
    return made


def test_a_failure_cordons_the_node_and_its_repair_brings_it_back(server: Server) -> None:
    assert take_out("worker1", FAILED) == "cordoned"
    assert server.condition == ("False", TEXT)
    assert server.node["spec"] == {"unschedulable": True}
    assert server.node["metadata"]["annotations"] == {CORDONED: TEXT}
    assert bring_back("worker1")
    assert server.condition == ("True", "the node check found no failure")
    assert server.node["spec"] == {}
    assert server.node["metadata"]["annotations"] == {}
    assert [row["type"] for row in server.node["status"]["conditions"]] == ["Ready", CONDITION]


def test_a_second_run_with_the_same_result_writes_nothing(server: Server) -> None:
    take_out("worker1", FAILED)
    server.patches.clear()
    assert take_out("worker1", FAILED) == "already cordoned"
    assert server.patches == []
    bring_back("worker1")
    server.patches.clear()
    assert not bring_back("worker1")
    assert server.patches == []


def test_a_node_that_a_person_cordoned_is_left_alone(server: Server) -> None:
    server.node["spec"] = {"unschedulable": True}
    assert take_out("worker1", FAILED) == "not cordoned: the node is already cordoned (a person)"
    assert server.condition == ("False", TEXT)
    assert not bring_back("worker1")
    assert server.node["spec"] == {"unschedulable": True}


def test_a_node_that_a_rollout_cordoned_is_left_to_the_rollout(server: Server) -> None:
    why = f"{OURS} kernel"
    server.node["spec"] = {"unschedulable": True}
    server.node["metadata"]["annotations"] = {CORDONED: why}
    assert not bring_back("worker1")
    assert take_out("worker1", FAILED) == f"not cordoned: the node is already cordoned ({why})"
    assert server.condition == ("False", TEXT)
    assert server.node["spec"] == {"unschedulable": True}
    assert server.node["metadata"]["annotations"] == {CORDONED: why}


def test_a_cordon_that_a_rollout_takes_over_meanwhile_is_left_to_it(server: Server) -> None:
    why = f"{OURS} kernel"

    def take_over() -> None:
        server.node["metadata"]["annotations"] = {CORDONED: why}
        server.changed()

    take_out("worker1", FAILED)
    server.meanwhile = [take_over]
    assert not bring_back("worker1")
    assert server.node["spec"] == {"unschedulable": True}
    assert server.node["metadata"]["annotations"] == {CORDONED: why}


def test_a_node_that_a_rollout_cordons_meanwhile_is_left_to_it(server: Server) -> None:
    why = f"{OURS} kernel"

    def cordon() -> None:
        server.node["spec"] = {"unschedulable": True}
        server.node["metadata"]["annotations"] = {CORDONED: why}
        server.changed()

    server.meanwhile = [cordon]
    assert take_out("worker1", FAILED) == f"not cordoned: the node is already cordoned ({why})"
    assert server.node["metadata"]["annotations"] == {CORDONED: why}


def test_another_change_meanwhile_is_read_and_a_node_that_never_rests_is_left(
    server: Server,
) -> None:
    take_out("worker1", FAILED)
    server.meanwhile = [server.changed] * kubernetes.TRIES
    assert not bring_back("worker1")
    assert server.node["spec"] == {"unschedulable": True}
    server.meanwhile = [server.changed]
    assert bring_back("worker1")
    assert server.node["spec"] == {}


def test_the_time_of_a_change_stays_while_only_the_reason_changes(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(("first", "second"))
    monkeypatch.setattr(time, "strftime", lambda *_: next(times))
    take_out("worker1", FAILED)
    take_out("worker1", [Result("gpu.count", "", "7", "8")])
    row = server.node["status"]["conditions"][-1]
    assert (row["lastTransitionTime"], row["lastHeartbeatTime"]) == ("first", "second")


@pytest.mark.parametrize("refused", [False, True])
def test_one_judge_has_two_ways_out(monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    called: list[str] = []

    def noted(what: str) -> Any:
        def take(*_: object) -> str:
            called.append(what)
            if refused:
                raise Unread("no answer")
            return what

        return take

    for module, names in (("slurm", ("drain", "resume")),
                          ("kubernetes", ("take_out", "bring_back"))):  # fmt: skip
        for name in names:
            monkeypatch.setattr(f"lockstep.node.check.{module}.{name}", noted(name))
    monkeypatch.setattr(syslog, "syslog", lambda *_: None)
    mode = program.MODES["health"]
    for scheduler in ("slurm", "kubernetes"):
        text = json.dumps({"node": "w", "housekeeping": "", "textfile": "", "request": {},
                           "judgements": [], "scheduler": scheduler})  # fmt: skip
        program._tell("health", mode, program.configuration(text), FAILED, [])
        if not refused:
            program._tell("health", mode, program.configuration(text), [], [])
        program._tell("health", mode, program.configuration(text), [], FAILED)
    whole = ["drain", "resume", "take_out", "bring_back"]
    assert called == ([whole[0], whole[2]] if refused else whole)


def test_workers_of_kubernetes_know_their_scheduler() -> None:
    for inventory, scheduler in (("kubernetes", "kubernetes"), ("prod", "slurm")):
        plan = next(node for node in plan_of(inventory).nodes.values() if node.is_worker)
        assert program.configuration(local.configuration(plan)).scheduler == scheduler


def test_the_rules_know_the_condition_and_the_annotation() -> None:
    assert kubernetes_views.OUR_CONDITION == CONDITION
    assert plan_kubernetes.CORDONED == CORDONED
