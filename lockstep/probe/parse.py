"""From the probe's output to a record, and records to and from a file."""

from __future__ import annotations

import json
import marshal
import sys
from collections.abc import Collection, Iterable
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
FIRST_LINE, LAST_LINE = '{"format":1,"nodes":{\n', "\n}}\n"
"""Of saved records; between them stands one node on each line."""
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
    lines = (
        f"{json.dumps(name)}:{json.dumps(got, separators=(',', ':'))}"
        for name, got in nodes.items()
    )
    return FIRST_LINE + ",\n".join(lines) + LAST_LINE


def load(file: Iterable[str], families: Collection[str] | None = None) -> Reading:
    """Return what ``dumps`` wrote, node by node: 2,000 need no memory for the text.

    Args:
        file: its lines; other JSON of the same content will do.
        families: first words of the readings that are wanted; all without.

    Raises:
        ProbeFormatError: the text is something else.
    """
    lines = iter(file)
    first = next(lines, "")
    if first != FIRST_LINE:
        return loads(first + "".join(lines), families)
    reading: Reading = {}
    for line in lines:
        if line != LAST_LINE.lstrip():
            node = line.rstrip().removesuffix(",")
            reading |= loads(f"{FIRST_LINE}{node}{LAST_LINE}", families)
    return reading


def loads(text: str, families: Collection[str] | None = None) -> Reading:
    """Return what ``dumps`` wrote.

    Args:
        text: all of it.
        families: first words of the readings that are wanted; all without.

    Raises:
        ProbeFormatError: the text is something else.
    """
    try:
        return _reading(json.loads(text), families)
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
            known = (
                Taken.model_construct(value=_interned(reading["value"]))
                if taken
                else Unread.model_validate(reading)
            )
            _KNOWN[key] = known
    except (ValidationError, ValueError):
        return reading  # named by its place when the record is judged
    return known


def _interned(value: Any) -> Any:
    """Return a map with its names and texts in memory once: those of packages, of interrupts."""
    if not isinstance(value, dict):
        return value
    return {
        sys.intern(name): sys.intern(one) if isinstance(one, str) else one
        for name, one in value.items()
    }


def _reading(document: Any, families: Collection[str] | None) -> Reading:
    """Return what saved records hold, each record with what it shares."""
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if isinstance(nodes, dict):
        made = {name: _with_record(got, families) for name, got in nodes.items()}
        document = {**document, "nodes": made}
    return SavedRecords.model_validate(document).reading


def _with_record(got: Any, families: Collection[str] | None) -> Any:
    if not isinstance(got, dict) or got.keys() != {"record"}:
        return got
    try:
        return NodeRecord(record=record(got["record"], families))
    except ValidationError:
        return got  # named by its node when all are judged


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    # pydantic names the classes that it tried as well: no place in the text.
    where = ".".join(str(part) for part in detail["loc"] if part not in ALTERNATIVES)
    return f"{where}: {detail['msg']}" if where else detail["msg"]
