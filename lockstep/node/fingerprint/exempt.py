"""What is not compared although it differs between equal nodes: data, each row with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from lockstep.node.fingerprint.entry import Entry, Fields

WHOLE = "*"
"""Stands for all fields: the object itself is not compared."""


class Exempt(NamedTuple):
    """Objects or fields that are not compared."""

    domain: str
    object: str
    """A regular expression that matches the whole name."""
    field: str
    """Name of the field, or WHOLE."""
    reason: str


APART = re.compile(r"\\\d|\(\?(?![:=!]|<[=!])")
"""Matches in patterns with references or flags. They cannot be part of a longer pattern."""
BEGINS = 6
"""Characters by which rows are found."""
REPEATED = "*?{"
SPECIAL = frozenset(".^$+[]()|\\}" + REPEATED)


class Row(NamedTuple):
    """A part of a row: one of the alternatives of its pattern."""

    pattern: str
    begins: str
    """What every name begins with that the pattern matches."""
    field: str


class Rows(NamedTuple):
    """The exceptions of one domain.

    To compile a pattern takes 0.3 ms, and most of them match nothing on a node. So a pattern is
    compiled when a name begins as it does.
    """

    by_beginning: dict[str, list[Row]]
    """The first BEGINS characters of a name -> the rows that may match it."""
    any: re.Pattern[str] | None
    """Matches the names that any other row matches. Most objects have no exception, and one pattern
    for all rows takes a tenth of the time; None if a row cannot be part of it."""
    others: list[Row]


Table = dict[str, Rows]


def by_domain(rows: Iterable[Exempt]) -> Table:
    """Return the rows by domain."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        for pattern in alternatives(row.object):
            begins = "" if APART.search(pattern) else beginning(pattern)
            part = Row(pattern, begins, row.field)
            found.setdefault(row.domain, []).append(part)
    return {domain: _rows(some) for domain, some in found.items()}


def _rows(rows: list[Row]) -> Rows:
    by_beginning: dict[str, list[Row]] = {}
    others = []
    for row in rows:
        if len(row.begins) < BEGINS:
            others.append(row)
        else:
            by_beginning.setdefault(row.begins[:BEGINS], []).append(row)
    return Rows(by_beginning, _any(tuple(row.pattern for row in others)), others)


def alternatives(pattern: str) -> list[str]:
    """Return the patterns of which a pattern is the alternation; itself if it is none."""
    if "|" not in pattern or APART.search(pattern):
        return [pattern]
    found, begin, depth, at = [], 0, 0, 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif character == "[":  # a bracket that comes first in a set belongs to it
            at += 2 if pattern[at + 1 : at + 2] == "^" else 1
            while (at := at + 1) < len(pattern) and pattern[at] != "]":
                at += pattern[at] == "\\"
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and depth == 0:
            found.append(pattern[begin:at])
            begin = at + 1
        at += 1
    return [*found, pattern[begin:]]


def beginning(pattern: str) -> str:
    """Return what every text begins with that one alternative of a pattern matches."""
    found: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\" and not pattern[at + 1].isalnum():
            at += 1
            found.append(pattern[at])
        elif character in SPECIAL:
            return "".join(found[:-1] if character in REPEATED else found)
        else:
            found.append(character)
        at += 1
    return "".join(found)


@cache
def _any(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    texts = dict.fromkeys(patterns)
    if any(map(APART.search, texts)):
        return None
    return re.compile("|".join(f"(?:{text})" for text in texts) or r"(?!)")


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def without_exceptions(domain: str, entry: Entry, table: Table) -> Fields | None:
    """Return the fields of an object that are compared; None if the object is not."""
    by_beginning, first, others = table.get(domain, NO_ROWS)
    name = entry.name
    rows = by_beginning.get(name[:BEGINS], [])
    if first is None or first.fullmatch(name):
        rows = [*rows, *others]
    elif not rows:
        return entry.fields
    dropped = {
        row.field
        for row in rows
        if name.startswith(row.begins) and _pattern(row.pattern).fullmatch(name)
    }
    if WHOLE in dropped:
        return None
    if not dropped:
        return entry.fields
    return {name: value for name, value in entry.fields.items() if name not in dropped}


NO_ROWS = Rows({}, re.compile(r"(?!)"), [])
