"""The readings in the record of one host."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.probe.ship import TOO_SLOW
from lockstep.question import Part


@dataclass
class Readings:
    """Readings of one host, taken with one set of pyinfra arguments."""

    values: dict[str, Any] = field(default_factory=dict)
    """Name -> reading, in the form that the program on the node prints."""
    after_command: bool = False
    """Whether the readings were taken after a command of this run, with no other command since."""
    too_slow: set[str] = field(default_factory=set)
    """Names of the readings that were not taken in time when they were last taken, such as those
    of a daemon that does not run; they are taken again only for a question."""
    _read_at: dict[Part, float] = field(default_factory=dict)
    _with_what: str = ""

    def add(
        self, values: Mapping[str, Any], wanted: Iterable[Part], with_what: str, at: float
    ) -> None:
        """Add readings, which replace earlier ones with the same names.

        Earlier readings that were taken with other arguments (``with_what``) are all dropped.
        """
        if with_what != self._with_what:
            self.values, self._read_at, self._with_what = {}, {}, with_what
        self.values.update(values)
        self.too_slow.difference_update(values)
        self.too_slow.update(name for name, one in values.items() if _is_late(one))
        self._read_at = {part: one for part, one in self._read_at.items() if part[0] not in values}
        self._read_at.update(dict.fromkeys(wanted, at))

    def in_time(self, part: Part) -> bool:
        """Return whether the reading of a part did not exceed its limit (``too_slow``)."""
        return part[0] not in self.too_slow

    def has(self, wanted: Iterable[Part], with_what: str, since: float) -> bool:
        """Return whether all wanted parts were read with these arguments, at ``since`` or later."""
        return self._with_what == with_what and self.oldest(wanted) >= since

    def oldest(self, wanted: Iterable[Part]) -> float:
        """Return the time at which the oldest of the wanted parts was read."""
        return min((self._read_at.get(part, -math.inf) for part in wanted), default=math.inf)


def _is_late(reading: Mapping[str, Any]) -> bool:
    """Return whether a reading, or an item of it, was not taken because it took too long."""
    value = reading.get("value")
    parts = [reading, *(value.values() if isinstance(value, dict) else ())]
    reasons = [str(one.get("unread", "")) for one in parts if isinstance(one, dict)]
    return any(words in reason for reason in reasons for words in TOO_SLOW)
