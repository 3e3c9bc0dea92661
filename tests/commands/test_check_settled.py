"""``lockstep check --settled``: nodes that are about to change have no vote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.checks import recorded
from tests.commands.conftest import START, Cluster, ended, refused
from tests.commands.test_check_fingerprint import Nodes

STRAY = {"/etc/stray": {"mode": "0644", "content": "x"}}


@pytest.fixture
def nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes()
    monkeypatch.setattr("lockstep.reading.gather", made.read)
    monkeypatch.setattr("time.time", lambda: made.now)
    return made


def checked(*options: str) -> list[tuple[str, str, str]]:
    """Check; return the node, the object and the reference of each finding."""
    ended("check", "inventory.py", "--json", "report.json", *options)
    found: list[dict[str, Any]] = json.loads(Path("report.json").read_text())["findings"]
    return [(one["node"], one["device"], one["reference"]) for one in found]


def test_new_workers_never_outvote_those_that_take_jobs(nodes: Nodes) -> None:
    new = [f"worker{number}" for number in range(3, 9)]
    for node in new:
        nodes.change(node, file=STRAY)
    assert {node for node, _, _ in checked()} == {"worker1", "worker2"}
    assert checked("--settled", "--limit", "worker[3-8]") == [
        (node, "/etc/stray", "peers (2 of 3)") for node in new
    ]
    assert len(nodes.asked) == 2, "one further question for each check"


def test_the_report_is_about_the_chosen_nodes(nodes: Nodes) -> None:
    nodes.change("worker3", file=STRAY)
    assert checked("--settled", "--limit", "worker[1-2]") == []
    (document,) = [json.loads(Path("report.json").read_text())]
    assert document["nodes"] == ["worker1", "worker2"]
    assert document["rules"]


def test_a_node_that_waits_for_a_reboot_is_not_asked(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """worker1 is the first of its side, and worker2 is asked in its place."""
    pending = recorded.mutated(recorded.consistent(), "worker1", "kernel.cmdline", (), ["quiet"])
    monkeypatch.setattr(recorded, "consistent", lambda: pending)
    nodes.change("worker3", file=STRAY)
    assert checked("--settled", "--limit", "worker3") == [
        ("worker3", "/etc/stray", "peers (6 of 7)")
    ]
    (question,) = nodes.asked
    assert question.keys() == {"worker2", "worker3"}


def test_the_past_of_a_node_is_kept_and_used(nodes: Nodes) -> None:
    nodes.lost = {f"worker{number}" for number in range(3, 9)}
    assert checked("--settled", "--limit", "worker[1-2]") == []
    nodes.now = START + 3600
    nodes.change("worker2", file={"plain": {"mode": "0600", "content": "a\nb\n"}})
    assert checked("--settled", "--limit", "worker2") == [("worker2", "plain", "earlier record")]


@pytest.mark.parametrize("other", [("--records", "x.json"), ("--no-history",)])
def test_saved_records_and_a_check_without_history_have_no_settled_nodes(
    nodes: Nodes, capsys: pytest.CaptureFixture[str], other: tuple[str, ...]
) -> None:
    assert "--settled needs live nodes and the history" in refused(
        capsys, "check", "inventory.py", "--settled", *other
    )
