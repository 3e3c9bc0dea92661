"""The record of one node: every reading by its full name, taken or unread with a reason."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, JsonValue

from lockstep.probe.lines import Unreachable as Unreachable

BOOT = "os.boot_id"
"""The reading that says which boot of its node a record is of."""


class _Part(BaseModel):
    # scripts/generate/record_schemas.py makes the attributes' docstrings the descriptions of
    # docs/*.schema.json: pydantic reads them from the source, which each run would pay for.
    model_config = ConfigDict(extra="forbid", frozen=True)


class Unread(_Part):
    """A reading that could not be taken. Never equal to any value, never a vote."""

    unread: str
    """The reason, in the words of the tool that failed."""


MISSING = Unread(unread="not in the record")
"""What the probe did not send."""


class Taken(_Part):
    """A reading that was taken."""

    value: JsonValue

    @cached_property
    def items(self) -> dict[str, JsonValue | Unread] | None:
        """A map item by item, each may be unread by itself; None for what is no map."""
        if not isinstance(self.value, dict):
            return None
        entries = self.value.items()
        unread = {key: item(entry) for key, entry in entries if isinstance(entry, dict)}
        unread = {key: one for key, one in unread.items() if isinstance(one, Unread)}
        # Mostly all of it was read: then no second map is kept.
        return (
            {**self.value, **unread} if unread else cast(dict[str, JsonValue | Unread], self.value)
        )

    @cached_property
    def parts(self) -> dict[str, JsonValue | Unread]:
        """A map item by item; what is no map as the one item ""."""
        return {"": self.value} if self.items is None else self.items


class CommandRun(_Part):
    """How one external command of the probe went."""

    argv: tuple[str, ...]
    status: int | None
    duration_s: float
    timed_out: bool


class Record(_Part):
    """All that was read from one node at one time."""

    format: Literal[1]
    """Of the layout; another number is another layout."""
    taken_at: float
    """Seconds since 1970, by the node's own clock."""
    duration_s: float
    """Seconds that the reading took."""
    readings: dict[str, Taken | Unread]
    """Name of a reading -> its value, or why there is none. New names may appear."""
    commands: tuple[CommandRun, ...] = ()
    """The external commands that were run, in their order."""

    def get(self, name: str) -> JsonValue | Unread:
        """Return a reading; unread when the probe did not send it."""
        reading = self.readings.get(name)
        if reading is None:
            return MISSING
        return reading if isinstance(reading, Unread) else reading.value

    def parts(self, name: str) -> dict[str, JsonValue | Unread]:
        """Return a reading item by item; one item "" for what is no map or was not taken."""
        reading = self.readings.get(name)
        return reading.parts if isinstance(reading, Taken) else {"": self.get(name)}

    def entry(self, name: str, key: str) -> JsonValue | Unread | None:
        """Return one item of a reading that is a map; None when the map has no such item."""
        value = self.get(name)
        if isinstance(value, Unread):
            return value
        if not isinstance(value, dict):
            return _no_map(value)
        return item(value[key]) if key in value else None

    def items(self, name: str) -> dict[str, JsonValue | Unread] | Unread:
        """Return a reading that is a map, item by item; each may be unread by itself."""
        value = self.get(name)
        if isinstance(value, Unread):
            return value
        reading = self.readings[name]
        items = reading.items if isinstance(reading, Taken) else None
        return _no_map(value) if items is None else items


class NodeRecord(_Part):
    """What a node gave."""

    record: Record


class NoRecord(_Part):
    """What is there in place of a record."""

    unreachable: str
    """Why there is no record of the node."""


class SavedRecords(_Part):
    """A file of records: what was read from all nodes at one time."""

    format: Literal[1]
    nodes: dict[str, NodeRecord | NoRecord]
    """Node name -> its record, or why there is none."""

    @property
    def reading(self) -> Reading:
        """Return it as it was read."""
        return {
            name: got.record if isinstance(got, NodeRecord) else Unreachable(got.unreachable)
            for name, got in self.nodes.items()
        }


def _no_map(value: JsonValue) -> Unread:
    return Unread(unread=f"not a map: {value!r:.60}")


def item(entry: JsonValue) -> JsonValue | Unread:
    """Return one entry of a map; ``{"unread": reason}`` is an unread one."""
    if isinstance(entry, dict) and entry.keys() == {"unread"}:
        return Unread(unread=str(entry["unread"]))
    return entry


Reading = dict[str, Record | Unreachable]
"""Node name -> what came of reading it."""


def only_records(reading: Reading) -> dict[str, Record]:
    """Return the records of the nodes that gave one."""
    return {name: got for name, got in reading.items() if isinstance(got, Record)}
