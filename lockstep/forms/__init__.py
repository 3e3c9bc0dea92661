"""Output formats of a report: one module per format, pure functions; ``groups`` is shared."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Run:
    """Information about the run that an output format shows in addition to the findings."""

    inventory: str
    command: str
    """The command that repeats this report, without its ``--rule`` options."""
    at: float
    """Unix time at which the nodes were read."""
    duration_s: float
    unread: tuple[str, ...] = ()
    """Nodes without a record."""
    rules: tuple[str, ...] = ()
    """Values of the ``--rule`` options; empty: all rules."""

    @property
    def again(self) -> str:
        """Return the command that repeats this report; options can be appended."""
        return with_rules(self.command, self.rules)

    def alone(self, rule: str) -> str:
        """Return the command that repeats this report for one rule only."""
        return with_rules(self.command, (rule,))


def with_rules(command: str, rules: Iterable[str]) -> str:
    """Return the command with a ``--rule`` option for each rule."""
    return " ".join([command, *(f"--rule {shlex.quote(rule)}" for rule in rules)])


def plain(text: str) -> str:
    """Return one line of text that is safe for terminals and XML; nodes may send anything."""
    if text.isprintable():
        return text
    return CONTROL.sub("?", re.sub(r"[\t\n\r]+", " ", text))


def shortened(text: str, width: int) -> str:
    """Return the text in one line, shortened to ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3].rstrip()}..."


def joined(parts: Iterable[str]) -> str:
    """Return the non-empty parts, separated by spaces."""
    return " ".join(part for part in parts if part)
