"""A report in each of its forms: one module per form, pure; what they group is ``groups``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Run:
    """How the report came about: what its form says beside the findings."""

    inventory: str
    command: str
    """The command that makes this report, but for its rules."""
    at: float
    """When the nodes were read, in seconds since 1970."""
    duration_s: float
    unread: tuple[str, ...] = ()
    """Nodes that gave no record."""
    rules: tuple[str, ...] = ()
    """What was asked for by ``--rule``; none: all."""

    @property
    def again(self) -> str:
        """Return the command that makes this report, to be completed by options."""
        return with_rules(self.command, self.rules)

    def alone(self, rule: str) -> str:
        """Return the command that reports on one rule of this report."""
        return with_rules(self.command, (rule,))


def with_rules(command: str, rules: Iterable[str]) -> str:
    """Return a command that chooses these rules."""
    return " ".join([command, *(f"--rule {shlex.quote(rule)}" for rule in rules)])


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
