"""A report in each of its forms: one module per form, pure; what they group is ``groups``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Run:
    """How the report came about: what its form says beside the findings."""

    inventory: str
    again: str
    """The command that makes this report, to be completed by options."""
    at: float
    """When the nodes were read, in seconds since 1970."""
    duration_s: float
    unread: tuple[str, ...] = ()
    """Nodes that gave no record."""


def plain(text: str) -> str:
    """Return text as one line of what terminals and XML take: it may come from a node."""
    if text.isprintable():
        return text
    return CONTROL.sub("?", re.sub(r"[\t\n\r]+", " ", text))


def shortened(text: str, width: int) -> str:
    """Return text of at most so many characters, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3].rstrip()}..."


def joined(parts: Iterable[str]) -> str:
    """Return the parts that are there, in one line."""
    return " ".join(part for part in parts if part)
