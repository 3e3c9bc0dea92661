"""The record of one host for as long as nothing changes it: what was read, and when."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from lockstep.facts.reading import Part


class Record:
    """Readings of one host, taken with one set of pyinfra's arguments."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self.readings: dict[str, Any] = {}
        """As the program on the node prints them."""
        self._read_at: dict[Part, float] = {}
        self._with_what = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        return not self._read_at

    def drop(self) -> None:
        """Keep nothing."""
        self.readings, self._read_at = {}, {}

    def add(
        self, readings: Mapping[str, Any], wanted: Iterable[Part], with_what: str, at: float
    ) -> None:
        """Take over readings, in place of earlier ones of the same names."""
        if with_what != self._with_what:
            self.drop()
            self._with_what = with_what
        self.readings.update(readings)
        self._read_at = {
            part: one for part, one in self._read_at.items() if part[0] not in readings
        }
        self._read_at.update(dict.fromkeys(wanted, at))

    def has(self, wanted: Iterable[Part], with_what: str, since: float) -> bool:
        """Say whether all that is wanted is there, and was read since a moment."""
        return self._with_what == with_what and all(
            self._read_at.get(part, -math.inf) >= since for part in wanted
        )

    def is_old(self, since: float) -> bool:
        """Say whether something of it was read before a moment."""
        return any(at < since for at in self._read_at.values())

    def oldest(self, wanted: Iterable[Part]) -> float:
        """Return when the first part of what is wanted was read."""
        return min((self._read_at.get(part, math.inf) for part in wanted), default=math.inf)
