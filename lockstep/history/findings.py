"""Age of findings: the consecutive checks in which each was found."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from lockstep.history.records import KEPT_FOR_S
from lockstep.report import Finding
from lockstep.spec.names import expand
from lockstep.when import utc

Place: TypeAlias = tuple[str, str, str]
"""Rule, node and device of a finding."""
_FOLDED = re.compile(r"(?=.*[,\[])[\w:.,\[\]-]+")
"""Several names, as ``fold`` writes them."""


def noted(
    history: sqlite3.Connection,
    findings: Collection[Finding],
    rules: Collection[str],
    nodes: Collection[str],
    now: float,
) -> list[Finding]:
    """Save the findings of a check, and return them with their age.

    Args:
        history: the open history.
        findings: the findings of this check.
        rules: ids of the rules that were checked; findings of other rules are kept.
        nodes: nodes that were checked; findings of nodes without a record are kept.
        now: Unix time at which the nodes were read.
    """
    rows = _rows(history)
    current = {place for finding in findings for place in _places(finding)}
    ended = [
        place for place in rows if place[0] in rules and place[1] in nodes and place not in current
    ]
    history.executemany("DELETE FROM finding WHERE (rule, node, device) = (?, ?, ?)", ended)
    history.execute("DELETE FROM finding WHERE last < ?", (now - KEPT_FOR_S,))
    for place in current:
        since, checks = rows.get(place, (now, 0))
        rows[place] = (since, checks + 1)
        history.execute(
            "INSERT OR REPLACE INTO finding VALUES (?, ?, ?, ?, ?, ?)",
            (*place, since, now, checks + 1),
        )
    return [_with_row(finding, rows) for finding in findings]


def remembered(history: sqlite3.Connection, findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with their age from the history; save nothing."""
    rows = _rows(history)
    return [_with_row(finding, rows) for finding in findings]


def last_found(history: sqlite3.Connection, rule: str) -> dict[str, float]:
    """Return node -> time of the last check with a finding of this rule that still exists."""
    rows = history.execute("SELECT node, last FROM finding WHERE rule = ? AND device = ''", (rule,))
    return dict(rows)


def _with_row(finding: Finding, rows: dict[Place, tuple[float, int]]) -> Finding:
    found = [rows[place] for place in _places(finding) if place in rows]
    if not found:
        return finding
    since, checks = min(found, key=lambda row: (row[0], -row[1]))
    return replace(finding, since=utc(since), checks=checks)


def _rows(history: sqlite3.Connection) -> dict[Place, tuple[float, int]]:
    every = history.execute("SELECT rule, node, device, since, checks FROM finding")
    return {(rule, node, device): (since, checks) for rule, node, device, since, checks in every}


def _places(finding: Finding) -> Iterator[Place]:
    """Yield each single (rule, node, device): folded names change from check to check."""
    for node in _names(finding.node):
        for device in _names(finding.device):
            yield finding.rule, node, device


def _names(text: str) -> tuple[str, ...]:
    try:
        return expand(text) if _FOLDED.fullmatch(text) else (text,)
    except ValueError:  # the name of a device looks like a folded name
        return (text,)
