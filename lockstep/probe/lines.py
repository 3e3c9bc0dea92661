"""Writes one line per node, with the node's record or the reason why there is none.

This module does not import pydantic, which would take 0.2 s.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

MARKER = "LOCKSTEP-RECORD 1"
RECORD = ':{"record":'
"""The text between a node's name and its record in ``node_line``."""


class ProbeFormatError(Exception):
    """Raised when a text is neither valid output of the probe nor a valid file of records."""


@dataclass(frozen=True)
class Unreachable:
    """The reason why there is no record of a node."""

    reason: str


def printed(output: str) -> str:
    """Return the line with the record from the probe's output.

    Raises:
        ProbeFormatError: the output contains no record.
    """
    lines = output.splitlines()
    if MARKER not in lines:
        start = output.strip()[:120] or "(empty)"
        raise ProbeFormatError(f"the output has no {MARKER!r} line. Output: {start}")
    rest = lines[lines.index(MARKER) + 1 :]
    if not rest:
        raise ProbeFormatError("the output ends before the record")
    return rest[0]


def node_line(name: str, got: str | Unreachable) -> str:
    """Return the line of a node, with its record or the reason why it has none."""
    if isinstance(got, Unreachable):
        return f"{json.dumps(name)}:{json.dumps({'unreachable': got.reason})}"
    return f"{json.dumps(name)}{RECORD}{got}}}"
