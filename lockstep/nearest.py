"""Suggests known names in place of an unknown one: one text for all messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST = 3
SIMILARITY = 0.7
"""Of a name that is suggested, as ``difflib.SequenceMatcher.ratio`` measures it."""
SHORTEST_PART = 3


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return what a message says that it expects in place of an unknown name.

    Args:
        name: the unknown name.
        known: the names that are known, in an order that is always the same.
        otherwise: the text if no known name is similar.
    """
    names = list(known)
    near = get_close_matches(name, names, n=MOST, cutoff=SIMILARITY)
    # A part of a name is similar to it for people, but not for difflib.
    if not near and len(name) >= SHORTEST_PART:
        near = [one for one in names if name in one][:MOST]
    if not near:
        return otherwise
    *others, last = near
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def one_of(name: str, known: Iterable[str]) -> str:
    """Return the similar names and all known names, for lists that are short."""
    names = list(known)
    hint, every = did_you_mean(name, names), ", ".join(names)
    return f"{hint} One of: {every}" if hint else f"one of: {every}"
