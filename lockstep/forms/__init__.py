"""Output formats of a report: one module of pure functions per format, and ``groups`` for all."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Run:
    """Information about the run that an output format shows in addition to the findings."""

    inventory: str
    command: str
    """The command that repeats this report, without its ``--rule`` options."""
    at: float
    """Unix time at which the nodes were read."""
    duration_s: float
    cluster: str = ""
    """Name of the cluster."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Rule -> what it claims, as one sentence; the built-in rules and those of the site."""
    unread: tuple[str, ...] = ()
    """Nodes without a record."""
    rules: tuple[str, ...] = ()
    """Values of the ``--rule`` options; if empty, all rules."""
    severity: str = ""
    """Value of the ``--severity`` option; "" if findings of all severities are shown."""
    lines: int = 50
    """Height of the screen, in characters."""
    columns: int = 100
    """Width of the screen, in characters."""

    def alone(self, *rules: str) -> str:
        """Return the command that repeats this report for the given rules only.

        Further options can be appended to it.
        """
        return " ".join([self.command, *(f"--rule {shlex.quote(rule)}" for rule in rules)])


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
