"""Keeps what each run has changed: a row for the run, and one for each of its nodes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from lockstep.history.store import KEPT_FOR_S


class Result(Enum):
    """What a run did on a node."""

    CHANGED = "changed"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    """The run ended before the node's last operation."""
    NONE = "none"
    """Nothing was to be changed."""


@dataclass(frozen=True)
class Change:
    """An operation that has executed commands on a node."""

    operation: str
    what: tuple[str, ...] = ()
    """Files that it replaced, or packages that it installed; empty if it does neither."""


@dataclass(frozen=True)
class OnNode:
    """What a run did on one node."""

    result: Result
    changes: tuple[Change, ...] = ()
    reason: str = ""
    """Why it failed."""


@dataclass(frozen=True)
class Run:
    """A run that could change nodes."""

    began: float
    """Unix time."""
    ended: float
    user: str
    host: str
    """The deploying machine."""
    command: str
    version: str
    """Of Lockstep."""
    commit: str
    """Of the repository with the inventory; "" if it is in none."""
    nodes: Mapping[str, OnNode]


def save(history: sqlite3.Connection, run: Run) -> None:
    """Save a run, and remove those that are too old."""
    row = (run.began, run.ended, run.user, run.host, run.command, run.version, run.commit)
    (number,) = history.execute(
        "INSERT INTO run (began, ended, user, host, command, version, site)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
        row,
    ).fetchone()
    history.executemany(
        "INSERT INTO run_node VALUES (?, ?, ?, ?, ?)",
        [
            (number, name, one.result.value, one.reason, _text(one.changes))
            for name, one in run.nodes.items()
        ],
    )
    history.execute("DELETE FROM run WHERE ended < ?", (run.ended - KEPT_FOR_S,))
    history.execute("DELETE FROM run_node WHERE run NOT IN (SELECT id FROM run)")


def since(history: sqlite3.Connection, moment: float, node: str | None = None) -> Iterator[Run]:
    """Yield the runs that ended at or after a time, the newest first.

    Args:
        history: the open history.
        moment: Unix time.
        node: only runs that had this node, without their other nodes; None: all.
    """
    rows = history.execute(
        "SELECT id, began, ended, user, host, command, version, site FROM run"
        " WHERE ended >= ? ORDER BY began DESC, id DESC",
        (moment,),
    ).fetchall()
    for number, began, ended, user, host, command, version, commit in rows:
        of_run = history.execute(
            "SELECT node, result, reason, changes FROM run_node WHERE run = ?"
            " AND (? IS NULL OR node = ?) ORDER BY rowid",
            (number, node, node),
        )
        nodes = {
            name: OnNode(Result(result), _changes(changes), reason)
            for name, result, reason, changes in of_run
        }
        if nodes:
            yield Run(began, ended, user, host, command, version, commit, nodes)


def _text(changes: tuple[Change, ...]) -> str:
    return json.dumps([[one.operation, *one.what] for one in changes]) if changes else ""


def _changes(text: str) -> tuple[Change, ...]:
    found = json.loads(text) if text else []
    return tuple(Change(operation, tuple(what)) for operation, *what in found)
