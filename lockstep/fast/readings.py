"""The readings in the record of one host."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.question import Part


@dataclass
class Readings:
    """Readings of one host, taken with one set of pyinfra arguments."""

    values: dict[str, Any] = field(default_factory=dict)
    """Name -> reading, in the form that the program on the node prints."""
    after_command: bool = False
    """Whether the readings were taken after a command of this run, with no other command since."""
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
        self._read_at = {part: one for part, one in self._read_at.items() if part[0] not in values}
        self._read_at.update(dict.fromkeys(wanted, at))

    def has(self, wanted: Iterable[Part], with_what: str, since: float) -> bool:
        """Return whether all wanted parts were read with these arguments, at ``since`` or later."""
        return self._with_what == with_what and self.oldest(wanted) >= since

    def oldest(self, wanted: Iterable[Part]) -> float:
        """Return the time at which the oldest of the wanted parts was read."""
        return min((self._read_at.get(part, -math.inf) for part in wanted), default=math.inf)
