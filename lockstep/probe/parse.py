"""Parses the probe's output; reads and writes files of records."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Any, Literal, TypeVar
from weakref import WeakValueDictionary

import msgspec
from pydantic import BaseModel, ValidationError

from lockstep.probe.lines import RECORD, ProbeFormatError, Unreachable, node_line, printed
from lockstep.probe.record import (
    BOOT,
    NodeRecord,
    NoRecord,
    Reading,
    Record,
    SavedRecords,
    Taken,
    Unread,
)

ALTERNATIVES = {kind.__name__ for kind in (NodeRecord, NoRecord, Taken, Unread)}
FORMAT = 1
"""Version of the format of records and of files with records."""
FIRST_LINE, LAST_LINE = '{"format":1,"nodes":{\n', "\n}}\n"
"""The first and the last line of a records file; each line between them describes one node."""
NOT_READ = (ValueError, RecursionError, msgspec.MsgspecError)
Model = TypeVar("Model", bound=BaseModel)
_KNOWN: WeakValueDictionary[bytes, Taken | Unread] = WeakValueDictionary()


def parse(output: str) -> Record:
    """Return the record in the probe's output; a greeting from the login shell may precede it.

    Raises:
        ProbeFormatError: the output has no complete record.
    """
    return record(printed(output))


def dumps(reading: Reading) -> str:
    """Return the records of all nodes, as text for a file."""
    lines = (
        node_line(name, got if isinstance(got, Unreachable) else text(got).decode())
        for name, got in sorted(reading.items())
    )
    return FIRST_LINE + ",\n".join(lines) + LAST_LINE


def text(record: Record) -> bytes:
    """Return a record as JSON; pydantic would take nine times as long."""
    readings = {
        name: {"unread": got.unread} if isinstance(got, Unread) else {"value": got.value}
        for name, got in record.readings.items()
    }
    plain = {**vars(record), "readings": readings}
    try:
        return msgspec.json.encode(plain, enc_hook=vars)
    except UnicodeEncodeError:  # a file name that is not valid Unicode
        return json.dumps(plain, default=vars).encode("ascii")


def node_of(line: bytes) -> tuple[str, Record | Unreachable]:
    """Return the node name in a line, and the node's record or the reason why there is none.

    Raises:
        ProbeFormatError: the line is not in the format of ``node_line``.
    """
    name, found, text = line.partition(RECORD.encode())
    if not found:
        ((node, got),) = loads(f"{FIRST_LINE}{line.decode()}{LAST_LINE}").items()
        return node, got
    try:
        node = json.loads(name)
    except ValueError as error:
        raise ProbeFormatError(f"invalid node name: {name[:100]!r}: {error}") from error
    try:
        return node, record(text.removesuffix(b"}"))
    except ProbeFormatError as error:
        return node, Unreachable(f"reached by ssh, but the output is not a record: {error}")


def load(file: Iterable[str], families: Collection[str] | None = None) -> Reading:
    """Parse the output of ``dumps`` node by node, without holding the whole text in memory.

    Args:
        file: the lines of the file; JSON with other line breaks is accepted, too.
        families: the readings to keep, by the first part of their names (``gpu``); None: all.

    Raises:
        ProbeFormatError: the file does not contain saved records.
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
    """Parse the output of ``dumps``.

    Args:
        text: the whole file.
        families: the readings to keep, by the first part of their names (``gpu``); None: all.

    Raises:
        ProbeFormatError: the text does not contain saved records.
    """
    try:
        saved = msgspec.json.decode(text, type=_Saved)
        return {name: _read(got, families) for name, got in saved.nodes.items()}
    except NOT_READ:
        nodes = _validated(text, SavedRecords, "not saved records: ").nodes
        return {
            name: got.record if isinstance(got, NodeRecord) else Unreachable(got.unreachable)
            for name, got in nodes.items()
        }


def record(text: str | bytes, families: Collection[str] | None = None) -> Record:
    """Parse a record; equal readings of several nodes share one object in memory.

    Args:
        text: the record as the probe printed it.
        families: the readings to keep, by the first part of their names (``gpu``); None: all.
            Others may be kept, too.

    Raises:
        ProbeFormatError: the text is not a record.
    """
    try:
        return _record(msgspec.json.decode(text, type=_Record), families)
    except NOT_READ:
        return _validated(text, Record)


# These classes find the readings in the text without parsing them, so that a reading is not parsed
# again if another node has the same one. The models in record.py define and validate a record.


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    taken_at: float
    duration_s: float
    readings: dict[str, msgspec.Raw]
    commands: msgspec.Raw = msgspec.Raw(b"[]")


class _Node(msgspec.Struct, forbid_unknown_fields=True):
    record: _Record | None = None
    unreachable: str | None = None


class _Saved(msgspec.Struct, forbid_unknown_fields=True):
    format: Literal[1]
    nodes: dict[str, _Node]


def _read(got: _Node, families: Collection[str] | None) -> Record | Unreachable:
    if got.record is not None and got.unreachable is None:
        return _record(got.record, families)
    if got.record is None and got.unreachable is not None:
        return Unreachable(got.unreachable)
    raise ValueError("a node must have either 'record' or 'unreachable'")


def _record(split: _Record, families: Collection[str] | None) -> Record:
    _refuse_newer(split.format)
    readings = {
        name: _shared(reading)
        for name, reading in split.readings.items()
        if families is None or name == BOOT or name.partition(".")[0] in families
    }
    return Record.model_validate(
        {
            "format": split.format,
            "taken_at": split.taken_at,
            "duration_s": split.duration_s,
            "readings": readings,
            "commands": json.loads(bytes(split.commands)) if families is None else (),
        }
    )


def _refuse_newer(number: object, prefix: str = "") -> None:
    """Refuse a format of a newer version of Lockstep.

    Raises:
        ProbeFormatError: it is newer.
    """
    if isinstance(number, int) and number > FORMAT:
        raise ProbeFormatError(
            f"{prefix}a newer version of Lockstep wrote this, in format {number}; this one reads "
            f"format {FORMAT}. Next: use the newer version"
        )


def _shared(text: msgspec.Raw) -> Taken | Unread:
    """Return the reading that a text contains; equal texts give the same object."""
    key = blake2b(text, digest_size=16).digest()
    known = _KNOWN.get(key)
    if known is None:
        reading = json.loads(bytes(text))
        # Values need no validation after json.loads, and most readings are values.
        taken = isinstance(reading, dict) and reading.keys() == {"value"}
        known = _KNOWN[key] = (
            Taken.model_construct(value=_interned(reading["value"]))
            if taken
            else Unread.model_validate(reading)
        )
    return known


def _interned(value: Any) -> Any:
    """Return a value, with keys and strings interned if it is a map (packages, interrupts)."""
    if not isinstance(value, dict):
        return value
    return {
        sys.intern(name): sys.intern(one) if isinstance(one, str) else one
        for name, one in value.items()
    }


def _validated(text: str | bytes, model: type[Model], prefix: str = "") -> Model:
    """Parse with json and pydantic, which are slower but accept NaN and locate errors.

    Raises:
        ProbeFormatError: the text is not JSON or does not fit the model.
    """
    try:
        document = json.loads(text)
        _refuse_newer(document.get("format") if isinstance(document, dict) else None, prefix)
        return model.model_validate(document)
    except ValidationError as error:
        detail = error.errors()[0]
        # pydantic also names the classes that it tried, which are not in the text.
        where = ".".join(str(part) for part in detail["loc"] if part not in ALTERNATIVES)
        place = f"{where}: " if where else ""
        raise ProbeFormatError(f"{prefix}{place}{detail['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise ProbeFormatError(f"{prefix or 'invalid JSON: '}{error}") from error
