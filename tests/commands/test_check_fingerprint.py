"""Fingerprints in a check: one further question to the nodes that differ, and the past."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from lockstep.fleet.gather import share_of
from lockstep.fleet.request import Asked
from lockstep.node.fingerprint.entry import Secret
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Reading, Record, Taken, Unreachable
from lockstep.when import DAY_S, HOUR_S, MINUTE_S
from tests.checks import recorded
from tests.checks.recorded_fingerprint import fingerprint, objects
from tests.commands.conftest import START, Cluster, ended, refused


class Nodes:
    """Nodes with fingerprints; it notes what they are asked."""

    def __init__(self) -> None:
        self.changed: dict[str, dict[str, Any]] = {}
        self.asked: list[Mapping[str, Asked]] = []
        self.how: list[dict[str, Any]] = []
        self.now = START
        self.boots: dict[str, str] = {}
        self.lost: set[str] = set()

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
            if name in self.lost:
                found[name] = Unreachable("ssh: no route to host")
                continue
            record = recorded.consistent().reading[name]
            assert isinstance(record, Record)
            address = plan.nodes[name].address
            has = {**objects(name, address), **self.changed.get(name, {})}
            wanted, boot = (asked or {}).get(name, ()), self.boots.get(name, "first")
            readings = fingerprint(name, address, has, wanted, boot=boot)
            if not how.get("fingerprint") and not asked:
                readings = {}
            taken = {one: Taken(value=value) for one, value in readings.items()}
            update = {"readings": {**record.readings, **taken}, "taken_at": self.now}
            found[name] = record.model_copy(update=update)
        return found

    def change(self, node: str, **changes: dict[str, Any]) -> None:
        """Add objects to domains of a node, or replace them."""
        address = recorded.consistent().plan.nodes[node].address
        usual = {**objects(node, address), **self.changed.get(node, {})}
        added = {domain: {**usual[domain], **inside} for domain, inside in changes.items()}
        self.changed[node] = {**self.changed.get(node, {}), **added}


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


@pytest.mark.parametrize("node", ["worker2", "worker3"])
@pytest.mark.parametrize("rebooted", ["", "worker2", "worker3"])
def test_of_two_workers_the_past_decides(
    nodes: Nodes, capsys: pytest.CaptureFixture[str], node: str, rebooted: str
) -> None:
    """Weeks lie between the healthy check and the change, and its record was thinned out."""
    nodes.lost = {f"worker{number}" for number in (1, 4, 5, 6, 7, 8)}
    for name in ("worker2", "worker3"):
        nodes.change(name, file={"boot": {"content": "boot-first\n"}})
    assert {one["rule"] for one in checked()} == {"node.reachable"}
    for wait in (HOUR_S, 20 * DAY_S):
        nodes.now += wait
        ended("check", "inventory.py", "--no-fingerprint")
    if rebooted:
        nodes.boots[rebooted] = "second"
        nodes.change(rebooted, file={"boot": {"content": "boot-second\n"}})
    nodes.now += HOUR_S
    assert {one["rule"] for one in checked()} == {"node.reachable"}
    nodes.change(node, file={"plain": {"mode": "0600", "content": "a\nb\n"}})
    for _ in range(2):
        nodes.now += HOUR_S
        (finding,) = (one for one in checked() if one["rule"] != "node.reachable")
        assert (finding["node"], finding["device"]) == (node, "plain")
        assert (finding["found"], finding["expected"]) == ("mode 0600", "mode 0644")
        assert finding["reference"] == "earlier record"
        assert finding["changed"] == "between 2026-12-10 20:40 and 21:40 UTC"
        assert finding["repair"] == f"on {node}: chmod 0644 plain"
    assert "  changed   between 2026-12-10 20:40 and 21:40 UTC\n" in capsys.readouterr().out


def test_a_node_tells_when_it_has_changed(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "since", "inventory.py", "worker3") == (
        "ERROR no fingerprint of worker3 is saved\n  next      lockstep check inventory.py\n"
    )
    nodes.change("worker3", file={"boot": {"content": "boot-first\n"}})
    checked()
    nodes.now += HOUR_S
    nodes.boots["worker3"] = "second"
    nodes.change("worker3", file={"boot": {"content": "boot-second\n"}})
    checked()
    nodes.now += HOUR_S
    nodes.change("worker3", user={"eve": {"uid": "0"}}, file={"own": {"content": "of worker3"}})
    checked()
    nodes.now += DAY_S
    nodes.change("worker3", user={"key": {"content": Secret("another")}})
    checked()
    capsys.readouterr()
    assert ended("since", "inventory.py", "worker3") == 0
    assert capsys.readouterr().out == (
        "between 2026-11-20 20:40 and 2026-11-21 20:40 UTC: user\n"
        "between 2026-11-20 19:40 and 20:40 UTC: file (own), user (1 object more)\n"
        "worker3: 2 times with changes between the fingerprints of 2026-11-20 18:40 UTC and "
        "2026-11-21 20:40 UTC\n"
    )
    assert ended("since", "inventory.py", "worker3", "file", "--json", "since.json") == 0
    found = json.loads(Path("since.json").read_text())
    assert found["changes"] == [
        {
            "after": START + HOUR_S,
            "until": START + 2 * HOUR_S,
            "domain": "file",
            "more": 0,
            "objects": ["own"],
        }
    ]
    assert "unknown domain 'files'" in refused(capsys, "since", "inventory.py", "worker3", "files")
