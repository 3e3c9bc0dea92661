"""From the probe's output to a record, and records to and from a file."""

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
FIRST_LINE, LAST_LINE = '{"format":1,"nodes":{\n', "\n}}\n"
"""Of saved records; between them stands one node on each line."""
NOT_READ = (ValueError, RecursionError, msgspec.MsgspecError)
Model = TypeVar("Model", bound=BaseModel)
_KNOWN: WeakValueDictionary[bytes, Taken | Unread] = WeakValueDictionary()


def parse(output: str) -> Record:
    """Return the record in the probe's output; a greeting of the login shell may precede it.

    Raises:
        ProbeFormatError: there is no complete record.
    """
    return record(printed(output))


def dumps(reading: Reading) -> str:
    """Return what was read from all nodes, as text for a file."""
    lines = (
        node_line(name, got if isinstance(got, Unreachable) else text(got).decode())
        for name, got in sorted(reading.items())
    )
    return FIRST_LINE + ",\n".join(lines) + LAST_LINE


def text(record: Record) -> bytes:
    """Return a record as ``record`` reads it: pydantic takes nine times as long for its JSON."""
    readings = {
        name: {"unread": got.unread} if isinstance(got, Unread) else {"value": got.value}
        for name, got in record.readings.items()
    }
    plain = {**vars(record), "readings": readings}
    try:
        return msgspec.json.encode(plain, enc_hook=vars)
    except UnicodeEncodeError:  # the name of a file that is no text
        return json.dumps(plain, default=vars).encode("ascii")


def node_of(line: bytes) -> tuple[str, Record | Unreachable]:
    """Return the node of one line, and what came of it; a text that is no record is named.

    Raises:
        ProbeFormatError: it is no such line.
    """
    name, found, text = line.partition(RECORD.encode())
    if not found:
        ((node, got),) = loads(f"{FIRST_LINE}{line.decode()}{LAST_LINE}").items()
        return node, got
    try:
        node = json.loads(name)
    except ValueError as error:
        raise ProbeFormatError(f"not the name of a node: {name[:100]!r}: {error}") from error
    try:
        return node, record(text.removesuffix(b"}"))
    except ProbeFormatError as error:
        return node, Unreachable(f"reached by ssh, but the answer is no record: {error}")


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
        saved = msgspec.json.decode(text, type=_Saved)
        return {name: _read(got, families) for name, got in saved.nodes.items()}
    except NOT_READ:
        return _refused(text, SavedRecords, "not saved records: ").reading


def record(text: str | bytes, families: Collection[str] | None = None) -> Record:
    """Return a record; what equal nodes have in common is in memory once.

    Args:
        text: as the probe wrote it.
        families: first words of the readings that are wanted, others may come too; all without.

    Raises:
        ProbeFormatError: it is no record.
    """
    try:
        return _record(msgspec.json.decode(text, type=_Record), families)
    except NOT_READ:
        return _refused(text, Record)


# Readings are split off as they stand in the text: those that equal nodes have in common are not
# parsed again. These classes say where they are; what a record is, say those of record.py.


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
    raise ValueError("a record, or why there is none")


def _record(split: _Record, families: Collection[str] | None) -> Record:
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


def _shared(text: msgspec.Raw) -> Taken | Unread:
    """Return the one object for all readings of the same text."""
    key = blake2b(text, digest_size=16).digest()
    known = _KNOWN.get(key)
    if known is None:
        reading = json.loads(bytes(text))
        # What json read needs no second look; it is most of a record.
        taken = isinstance(reading, dict) and reading.keys() == {"value"}
        known = _KNOWN[key] = (
            Taken.model_construct(value=_interned(reading["value"]))
            if taken
            else Unread.model_validate(reading)
        )
    return known


def _interned(value: Any) -> Any:
    """Return a map with its names and texts in memory once: those of packages, of interrupts."""
    if not isinstance(value, dict):
        return value
    return {
        sys.intern(name): sys.intern(one) if isinstance(one, str) else one
        for name, one in value.items()
    }


def _refused(text: str | bytes, model: type[Model], said: str = "") -> Model:
    """Return what was wanted after all, or say what is wrong with the text and where.

    Raises:
        ProbeFormatError: always, but for what JSON knows not and Python does (NaN).
    """
    try:
        return model.model_validate(json.loads(text))
    except ValidationError as error:
        raise ProbeFormatError(f"{said}{_first(error)}") from error
    except (ValueError, RecursionError) as error:
        raise ProbeFormatError(f"{said or 'no JSON: '}{error}") from error


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    # pydantic names the classes that it tried as well: no place in the text.
    where = ".".join(str(part) for part in detail["loc"] if part not in ALTERNATIVES)
    return f"{where}: {detail['msg']}" if where else detail["msg"]
