"""Fingerprints in a check: one further question to the nodes that differ, and the past."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from lockstep.fleet.gather import share_of
from lockstep.fleet.request import Asked
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Reading, Record, Taken
from lockstep.when import MINUTE_S
from tests.checks import recorded
from tests.checks.recorded_fingerprint import fingerprint, objects
from tests.commands.conftest import START, Cluster, ended


class Nodes:
    """Nodes with fingerprints; it notes what they are asked."""

    def __init__(self) -> None:
        self.changed: dict[str, dict[str, Any]] = {}
        self.asked: list[Mapping[str, Asked]] = []
        self.how: list[dict[str, Any]] = []
        self.now = START

    def read(
        self,
        plan: ClusterPlan,
        nodes: Collection[str] | None = None,
        *,
        asked: Mapping[str, Asked] | None = None,
        tell: Callable[[bool], None] = lambda failed: None,
        **how: Any,
    ) -> Reading:
        """Stand in for ``gather``."""
        self.how.append({"through": "", "fingerprint": False, **how})
        if asked:
            self.asked.append(asked)
        found: Reading = {}
        for name in plan.nodes if nodes is None else nodes:
            record = recorded.consistent().reading[name]
            assert isinstance(record, Record)
            address = plan.nodes[name].address
            has = {**objects(name, address), **self.changed.get(name, {})}
            readings = fingerprint(name, address, has, (asked or {}).get(name, ()))
            taken = {one: Taken(value=value) for one, value in readings.items()}
            update = {"readings": {**record.readings, **taken}, "taken_at": self.now}
            found[name] = record.model_copy(update=update)
        return found


@pytest.fixture
def nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes()
    monkeypatch.setattr("lockstep.reading.gather", made.read)
    monkeypatch.setattr("time.time", lambda: made.now)
    return made


def checked(*options: str) -> list[dict[str, Any]]:
    """Check, and return the findings."""
    ended("check", "inventory.py", "--json", "report.json", *options)
    found: list[dict[str, Any]] = json.loads(Path("report.json").read_text())["findings"]
    return found


def test_equal_nodes_are_asked_once(nodes: Nodes) -> None:
    assert checked() == []
    assert nodes.asked == []


def test_one_changed_object_is_one_question_to_two_nodes(nodes: Nodes) -> None:
    address = recorded.consistent().plan.nodes["worker3"].address
    usual = objects("worker3", address)["user"]
    nodes.changed["worker3"] = {"user": {**usual, "eve": {"uid": "0"}}}
    (finding,) = checked()
    assert (finding["rule"], finding["node"], finding["device"]) == (
        "fingerprint.user",
        "worker3",
        "eve",
    )
    (question,) = nodes.asked
    assert len(question) == 2
    assert "worker3" in question


def test_records_show_the_same_later(nodes: Nodes) -> None:
    nodes.changed["worker3"] = {"user": {}}
    now = checked("--save-records", "records.json", "--no-history")
    assert {finding["node"] for finding in now} == {"worker3"}
    ended("check", "inventory.py", "--records", "records.json", "--json", "report.json")
    later = json.loads(Path("report.json").read_text())["findings"]
    assert [one["device"] for one in later] == [one["device"] for one in now]
    assert len(nodes.asked) == 1


def test_the_history_keeps_the_past(nodes: Nodes) -> None:
    """Four of eight workers change: no majority, and the past of the checks decides."""
    assert checked() == []
    for name in ("worker1", "worker2", "worker3", "worker4"):
        nodes.changed[name] = {"user": {}}
    for _ in range(3):  # the check after the first one has the difference in its past already
        nodes.now += 15 * MINUTE_S
        found = checked()
        assert {one["node"] for one in found} == {"worker1", "worker2", "worker3", "worker4"}
        assert {one["reference"] for one in found} == {"earlier record"}


def test_slow_domains_are_asked_for_by_name(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def read(plan: ClusterPlan, nodes: Collection[str] | None = None, **how: Any) -> Reading:
        asked.append([one.slow for one in share_of(plan, ["worker1"], slow=how["slow"],
                      fingerprint=how["fingerprint"]).requests.values()])  # fmt: skip
        return Nodes().read(plan, nodes, **how)

    monkeypatch.setattr("lockstep.reading.gather", read)
    for words in ((), ("--slow",)):
        ended("check", "inventory.py", *words)
    assert asked == [[False], [True]]


@pytest.mark.parametrize("program", ["slurm", "clush"])
def test_another_program_takes_them_and_the_further_question_goes_directly(
    nodes: Nodes, program: str
) -> None:
    nodes.changed["worker3"] = {"user": {}}
    assert {one["node"] for one in checked("--through", program)} == {"worker3"}
    assert [how["fingerprint"] for how in nodes.how] == [True, False]
    assert [how["through"].startswith(f"--through-{program}") for how in nodes.how] == [True, False]
