"""The runs that have changed nodes, in the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.history.runs import Change, OnNode, Result, Run, save, since
from lockstep.history.store import KEPT_FOR_S, opened

NOW = 1795200000.0
FILES = Change("Munge | Files", ("/etc/munge/munge.key",))
NODES = {
    "worker2": OnNode(Result.CHANGED, (FILES, Change("Service"))),
    "worker1": OnNode(Result.FAILED, (FILES,), "failed in Service"),
    "head1": OnNode(Result.NONE),
}


def run(began: float, **nodes: OnNode) -> Run:
    words = ("ann", "deploy1", "pyinfra -y prod.py", "0.1.0", "1a2b3c+")
    return Run(began, began + 60, *words, nodes or NODES)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with opened(tmp_path / "history.sqlite") as found:
        yield found


def test_runs_come_back_as_they_were_the_newest_first(history: sqlite3.Connection) -> None:
    first, second = run(NOW), run(NOW + 100)
    save(history, first)
    save(history, second)
    assert list(since(history, 0.0)) == [second, first]
    assert next(since(history, 0.0)).nodes.keys() == NODES.keys()
    assert list(since(history, NOW + 61)) == [second]
    assert list(since(history, NOW + 161)) == []


def test_of_one_node_only_its_own_runs(history: sqlite3.Connection) -> None:
    save(history, run(NOW))
    save(history, run(NOW + 100, worker9=OnNode(Result.NONE)))
    (found,) = since(history, 0.0, "worker1")
    assert found.nodes == {"worker1": NODES["worker1"]}


def test_old_runs_are_removed_with_their_nodes(history: sqlite3.Connection) -> None:
    save(history, run(NOW))
    save(history, run(NOW + KEPT_FOR_S + 1))
    assert [one.began for one in since(history, 0.0)] == [NOW + KEPT_FOR_S + 1]
    count = "SELECT count(*) FROM run_node"
    assert history.execute(count).fetchone() == (len(NODES),)
