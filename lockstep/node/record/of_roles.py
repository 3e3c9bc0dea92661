"""Readers that only roles need, and that use the modules of the fingerprint."""

from __future__ import annotations

from lockstep.node.fingerprint.not_applied import read_not_applied
from lockstep.node.readers.collect import in_turn
from lockstep.node.readers.take import Row

READERS: tuple[Row, ...] = ((read_not_applied, ("services.not_applied",)),)


def for_a_role(only: frozenset[str]) -> list[list[Row]]:
    """Return the readers for these readings, as ``take`` expects."""
    return [*in_turn(only), *([row] for row in READERS if only & set(row[1]))]
