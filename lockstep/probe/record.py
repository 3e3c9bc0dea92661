"""The record of one node: for every reading, its value or the reason why it could not be taken."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, JsonValue

from lockstep.node.readers.reading import NOT_AVAILABLE
from lockstep.probe.lines import Unreachable as Unreachable

BOOT = "os.boot_id"
"""The reading that identifies a node's current boot."""
FINGERPRINT = "fingerprint"
"""The reading with the hashes over the node's configuration."""


class _Part(BaseModel):
    # scripts/generate/record_schemas.py copies the attributes' docstrings to the descriptions
    # in docs/*.schema.json. pydantic would read them from the source in every run.
    model_config = ConfigDict(extra="forbid", frozen=True)


class Unread(_Part):
    """A reading that could not be taken. It equals no value and is not compared with peers."""

    unread: str
    """The reason, in the words of the tool that failed."""

    @property
    def is_not_available(self) -> bool:
        """Whether no node with this driver can have the value."""
        return self.unread.startswith(NOT_AVAILABLE)


MISSING = Unread(unread="not in the record")
"""A reading that the probe did not send."""


class Taken(_Part):
    """A reading that was taken."""

    value: JsonValue

    @cached_property
    def items(self) -> dict[str, JsonValue | Unread] | None:
        """The items of a map, each a value or unread; None if the value is not a map."""
        if not isinstance(self.value, dict):
            return None
        maps = {key: item(entry) for key, entry in self.value.items() if isinstance(entry, dict)}
        unread = {key: one for key, one in maps.items() if isinstance(one, Unread)}
        # Usually all items were read, so no second map is needed.
        return (
            {**self.value, **unread} if unread else cast(dict[str, JsonValue | Unread], self.value)
        )

    @cached_property
    def parts(self) -> dict[str, JsonValue | Unread]:
        """The items of a map; a value that is not a map is one item with the key ""."""
        return {"": self.value} if self.items is None else self.items


class CommandRun(_Part):
    """One external command that the probe ran, and its result."""

    argv: tuple[str, ...]
    status: int | None
    duration_s: float
    timed_out: bool


class Record(_Part):
    """All readings of one node at one time."""

    format: Literal[1]
    """Version of the record's format."""
    taken_at: float
    """Unix time in seconds, by the node's own clock."""
    duration_s: float
    """Seconds that it took to read the node."""
    readings: dict[str, Taken | Unread]
    """Reading name -> its value, or the reason why it is unread. Later versions may add names."""
    commands: tuple[CommandRun, ...] = ()
    """The external commands that the probe ran."""

    def get(self, name: str) -> JsonValue | Unread:
        """Return the value of a reading, or ``Unread`` if it has none."""
        reading = self.readings.get(name, MISSING)
        return reading.value if isinstance(reading, Taken) else reading

    def parts(self, name: str) -> dict[str, JsonValue | Unread]:
        """Return a reading's items; if unread or not a map, it becomes one item with the key ""."""
        reading = self.readings.get(name, MISSING)
        return reading.parts if isinstance(reading, Taken) else {"": reading}

    def entry(self, name: str, key: str) -> JsonValue | Unread | None:
        """Return one item of a reading that is a map; None if the map has no such item."""
        items = self.items(name)
        return items.get(key) if isinstance(items, dict) else items

    def items(self, name: str) -> dict[str, JsonValue | Unread] | Unread:
        """Return the items of a reading that is a map; each is a value or unread."""
        reading = self.readings.get(name, MISSING)
        if not isinstance(reading, Taken):
            return reading
        if reading.items is None:
            return Unread(unread=f"the value is not a map: {reading.value!r:.60}")
        return reading.items


class NodeRecord(_Part):
    """A node with its record."""

    record: Record


class NoRecord(_Part):
    """A node without a record."""

    unreachable: str
    """The reason why there is no record."""


class SavedRecords(_Part):
    """A file of records: the readings of all nodes at one time."""

    format: Literal[1]
    nodes: dict[str, NodeRecord | NoRecord]
    """Node name -> its record, or the reason why there is none."""


def item(entry: JsonValue) -> JsonValue | Unread:
    """Return an item of a map; ``{"unread": reason}`` becomes ``Unread``."""
    if isinstance(entry, dict) and entry.keys() == {"unread"}:
        return Unread(unread=str(entry["unread"]))
    return entry


Reading = dict[str, Record | Unreachable]
"""Node name -> its record, or the reason why there is none."""


def only_records(reading: Reading) -> dict[str, Record]:
    """Return the records of the nodes that have one."""
    return {name: got for name, got in reading.items() if isinstance(got, Record)}
