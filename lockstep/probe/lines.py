"""The output of a node as one line for the parser. No models: they cost 0.2 s to import."""

from __future__ import annotations

import json
from dataclasses import dataclass

MARKER = "LOCKSTEP-RECORD 1"
RECORD = ':{"record":'
"""Stands in such a line between a node's name and its record."""


class ProbeFormatError(Exception):
    """The text is not what the probe prints."""


@dataclass(frozen=True)
class Unreachable:
    """A node that gave no record at all, and why."""

    reason: str


def printed(output: str) -> str:
    """Return the line of the record in the probe's output, as it stands there.

    Raises:
        ProbeFormatError: there is none.
    """
    lines = output.splitlines()
    if MARKER not in lines:
        start = output.strip()[:120] or "nothing"
        raise ProbeFormatError(f"no line {MARKER!r}; the output begins with: {start}")
    rest = lines[lines.index(MARKER) + 1 :]
    if not rest:
        raise ProbeFormatError("the output ends before the record")
    return rest[0]


def node_line(name: str, got: str | Unreachable) -> str:
    """Return the line of a node in a file: its record as text, or why there is none."""
    if isinstance(got, Unreachable):
        return f"{json.dumps(name)}:{json.dumps({'unreachable': got.reason})}"
    return f"{json.dumps(name)}{RECORD}{got}}}"
