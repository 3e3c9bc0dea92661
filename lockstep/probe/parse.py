"""From the probe's output to a record, and records to and from a file."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from lockstep.probe.record import (
    NodeRecord,
    NoRecord,
    Reading,
    Record,
    SavedRecords,
    Taken,
    Unreachable,
    Unread,
)

ALTERNATIVES = {kind.__name__ for kind in (NodeRecord, NoRecord, Taken, Unread)}
MARKER = "LOCKSTEP-RECORD 1"


class ProbeFormatError(Exception):
    """The text is not what the probe prints."""


def parse(output: str) -> Record:
    """Return the record in the probe's output; a greeting of the login shell may precede it.

    Raises:
        ProbeFormatError: there is no complete record.
    """
    lines = output.splitlines()
    if MARKER not in lines:
        start = output.strip()[:120] or "nothing"
        raise ProbeFormatError(f"no line {MARKER!r}; the output begins with: {start}")
    rest = lines[lines.index(MARKER) + 1 :]
    if not rest:
        raise ProbeFormatError("the output ends before the record")
    return _record(rest[0])


def dumps(reading: Reading) -> str:
    """Return what was read from all nodes, as text for a file."""
    nodes: dict[str, Any] = {
        name: {"unreachable": got.reason}
        if isinstance(got, Unreachable)
        else {"record": got.model_dump(mode="json")}
        for name, got in sorted(reading.items())
    }
    return json.dumps({"format": 1, "nodes": nodes}, separators=(",", ":")) + "\n"


def loads(text: str) -> Reading:
    """Return what ``dumps`` wrote.

    Raises:
        ProbeFormatError: the text is something else.
    """
    try:
        return SavedRecords.model_validate_json(text).reading
    except ValidationError as error:
        raise ProbeFormatError(f"not saved records: {_first(error)}") from error


def _record(line: str) -> Record:
    try:
        return Record.model_validate_json(line)
    except ValidationError as error:
        raise ProbeFormatError(_first(error)) from error


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    # pydantic names the classes that it tried as well: no place in the text.
    where = ".".join(str(part) for part in detail["loc"] if part not in ALTERNATIVES)
    return f"{where}: {detail['msg']}" if where else detail["msg"]
