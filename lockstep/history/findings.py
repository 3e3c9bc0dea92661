"""The age of findings: when each was first found, and in how many consecutive checks."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import TypeAlias

from lockstep.history.store import KEPT_FOR_S
from lockstep.report import Finding
from lockstep.spec.names import expand
from lockstep.when import utc

Place: TypeAlias = tuple[str, str, str]
"""Rule, node and device of a finding."""
_FOLDED = re.compile(r"(?=.*[,\[])[\w:.,\[\]-]+")
"""Matches several names in hostlist notation, as ``fold`` returns them."""


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
        nodes: nodes that were checked and have a record; findings of other nodes are kept.
        now: Unix time at which the nodes were read.
    """
    current = {place for finding in findings for place in _places(finding)}
    ended = [
        (rule, node, device)
        for rule, node, device in _rows(history)
        if rule in rules and node in nodes and (rule, node, device) not in current
    ]
    history.executemany("DELETE FROM finding WHERE (rule, node, device) = (?, ?, ?)", ended)
    history.executemany(
        "INSERT INTO finding VALUES (?, ?, ?, ?, ?, 1) ON CONFLICT (rule, node, device)"
        " DO UPDATE SET last = excluded.last, checks = checks + 1",
        [(*place, now, now) for place in current],
    )
    history.execute("DELETE FROM finding WHERE last < ?", (now - KEPT_FOR_S,))
    return remembered(history, findings)


def remembered(history: sqlite3.Connection, findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with their age from the history, without saving anything."""
    rows = _rows(history)
    return [_with_row(finding, rows) for finding in findings]


def last_found(history: sqlite3.Connection, rule: str) -> dict[str, float]:
    """Map each node with a finding of this rule to the time when the finding was last found."""
    return dict(
        history.execute("SELECT node, last FROM finding WHERE rule = ? AND device = ''", (rule,))
    )


def _with_row(finding: Finding, rows: dict[Place, tuple[float, int]]) -> Finding:
    found = [rows[place] for place in _places(finding) if place in rows]
    if not found:
        return finding
    since, checks = min(found, key=lambda row: (row[0], -row[1]))
    return replace(finding, since=utc(since), checks=checks)


def _rows(history: sqlite3.Connection) -> dict[Place, tuple[float, int]]:
    return {
        (rule, node, device): (since, checks)
        for rule, node, device, since, checks in history.execute(
            "SELECT rule, node, device, since, checks FROM finding"
        )
    }


def _places(finding: Finding) -> Iterator[Place]:
    """Yield (rule, node, device) with unfolded names, because folded names vary between checks."""
    return product([finding.rule], _names(finding.node), _names(finding.device))


def _names(text: str) -> tuple[str, ...]:
    try:
        return expand(text) if _FOLDED.fullmatch(text) else (text,)
    except ValueError:  # a device name that only looks like a folded name
        return (text,)
