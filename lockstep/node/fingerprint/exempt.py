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


Table = dict[str, list[tuple[re.Pattern[str], str]]]


def by_domain(rows: Iterable[Exempt]) -> Table:
    """Return the rows by domain."""
    table: Table = {}
    for row in rows:
        table.setdefault(row.domain, []).append((_pattern(row.object), row.field))
    return table


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def without_exceptions(domain: str, entry: Entry, table: Table) -> Fields | None:
    """Return the fields of an object that are compared; None if the object is not."""
    dropped = {field for pattern, field in table.get(domain, ()) if pattern.fullmatch(entry.name)}
    if WHOLE in dropped:
        return None
    if not dropped:
        return entry.fields
    return {name: value for name, value in entry.fields.items() if name not in dropped}
