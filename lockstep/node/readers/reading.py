"""What a reading is: taken, or unread with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Request = dict[str, Any]
Readings = dict[str, Any]
ABSENT = "absent"
"""What a machine does not have: a value, so that it can differ from what its peers have."""
NOT_SUPPORTED = "not supported"


class Unread(Exception):
    """A reading that could not be taken; the text is the reason."""


def each(names: list[str], reader: Callable[[str], Any]) -> dict[str, Any]:
    """Return name -> reading; a failed one is unread by itself."""
    return {name: one(reader, name) for name in names}


def one(reader: Callable[[str], Any], name: str) -> Any:
    """Return a reading; a failed one as an unread item of a map."""
    try:
        return reader(name)
    except Unread as reason:
        return {"unread": str(reason)}


def counted(values: list[str]) -> str:
    """Return values as text: the one that all have, or each with its number; "absent" for none."""
    kinds = sorted(set(values))
    if len(kinds) > 1:
        return ", ".join(f"{kind} x{values.count(kind)}" for kind in kinds)
    return kinds[0] if kinds else ABSENT
