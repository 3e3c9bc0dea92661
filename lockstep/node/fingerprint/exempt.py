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


class Rows(NamedTuple):
    """The exceptions of one domain."""

    any: re.Pattern[str] | None
    """Matches the names that any row matches. Most objects have no exception, and one pattern for
    all rows takes a tenth of the time; None if a row cannot be part of it."""
    rows: list[Exempt]


Table = dict[str, Rows]


def by_domain(rows: Iterable[Exempt]) -> Table:
    """Return the rows by domain."""
    found: dict[str, list[Exempt]] = {}
    for row in rows:
        found.setdefault(row.domain, []).append(row)
    return {domain: Rows(_any(tuple(some)), some) for domain, some in found.items()}


@cache
def _any(rows: tuple[Exempt, ...]) -> re.Pattern[str] | None:
    texts = dict.fromkeys(row.object for row in rows)
    if any(map(APART.search, texts)):
        return None
    return re.compile("|".join(f"(?:{text})" for text in texts))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def without_exceptions(domain: str, entry: Entry, table: Table) -> Fields | None:
    """Return the fields of an object that are compared; None if the object is not."""
    first, rows = table.get(domain, NO_ROWS)
    if first is not None and not first.fullmatch(entry.name):
        return entry.fields
    dropped = {row.field for row in rows if _pattern(row.object).fullmatch(entry.name)}
    if WHOLE in dropped:
        return None
    if not dropped:
        return entry.fields
    return {name: value for name, value in entry.fields.items() if name not in dropped}


NO_ROWS = Rows(None, [])
