"""From the probe's output to a record, and records to and from a file."""

from __future__ import annotations

import json
import marshal
from collections.abc import Collection
from functools import partial
from hashlib import blake2b
from typing import Any
from weakref import WeakValueDictionary

from pydantic import ValidationError

from lockstep.probe.record import (
    BOOT,
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
WITHOUT_REFERENCES = 2
"""A version of marshal's format in which equal values have equal bytes."""
_KNOWN: WeakValueDictionary[bytes, Taken | Unread] = WeakValueDictionary()


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


def loads(text: str, families: Collection[str] | None = None) -> Reading:
    """Return what ``dumps`` wrote.

    Args:
        text: all of it.
        families: first words of the readings that are wanted; all without.

    Raises:
        ProbeFormatError: the text is something else.
    """
    try:
        # Record by record, as soon as each is read: 2,000 of them would not fit in memory twice.
        document = json.loads(text, object_hook=partial(_with_record, families=families))
        return SavedRecords.model_validate(document).reading
    except ValidationError as error:
        raise ProbeFormatError(f"not saved records: {_first(error)}") from error
    except ValueError as error:
        raise ProbeFormatError(f"not saved records: {error}") from error


def _record(line: str) -> Record:
    try:
        return record(json.loads(line))
    except ValidationError as error:
        raise ProbeFormatError(_first(error)) from error
    except ValueError as error:
        raise ProbeFormatError(f"no JSON: {error}") from error


def record(document: object, families: Collection[str] | None = None) -> Record:
    """Return a record; what equal nodes have in common is in memory once.

    Args:
        document: as the probe wrote it.
        families: first words of the readings that are wanted; all without.

    Raises:
        ValidationError: it is no record.
    """
    if isinstance(document, dict) and isinstance(readings := document.get("readings"), dict):
        wanted = {
            name: _shared(reading)
            for name, reading in readings.items()
            if families is None or name == BOOT or name.partition(".")[0] in families
        }
        commands = () if families is not None else document.get("commands", ())
        document = {**document, "readings": wanted, "commands": commands}
    return Record.model_validate(document)


def _shared(reading: Any) -> object:
    """Return the one object for all equal readings; what is none of them as it is."""
    try:
        key = blake2b(marshal.dumps(reading, WITHOUT_REFERENCES), digest_size=16).digest()
        known = _KNOWN.get(key)
        if known is None:
            # What json read needs no second look; it is most of a record.
            taken = isinstance(reading, dict) and reading.keys() == {"value"}
            known = Taken.model_construct(**reading) if taken else Unread.model_validate(reading)
            _KNOWN[key] = known
    except (ValidationError, ValueError):
        return reading  # named by its place when the record is judged
    return known


def _with_record(
    document: dict[str, object], families: Collection[str] | None
) -> dict[str, object]:
    """Return an object of saved records, with its record made one."""
    if document.keys() != {"record"}:
        return document
    try:
        return {"record": record(document["record"], families)}
    except ValidationError:
        return document  # named by its node when all are judged


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    # pydantic names the classes that it tried as well: no place in the text.
    where = ".".join(str(part) for part in detail["loc"] if part not in ALTERNATIVES)
    return f"{where}: {detail['msg']}" if where else detail["msg"]
