"""The nodes that a description is drafted from, as their records show them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lockstep.probe.record import Record, Unread

HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
NUMBERED = re.compile(r"(.*?)(\d*)(\D*)")


@dataclass(frozen=True)
class Seen:
    """One node."""

    host: str
    """The host as the user gave it."""
    record: Record
    named: str = ""
    """The name to use instead of the node's own, which is not unique; "" if it is."""

    def get(self, name: str) -> Any:
        """Return a reading; None if it was not taken."""
        value = self.record.get(name)
        return None if isinstance(value, Unread) else value

    def reason(self, name: str) -> str:
        """Return why a reading was not taken; "" if it was."""
        value = self.record.get(name)
        return value.unread if isinstance(value, Unread) else ""

    def items(self, name: str) -> dict[str, Any]:
        """Return the items of a reading that could be read; {} if none."""
        found = self.record.items(name)
        if isinstance(found, Unread):
            return {}
        return {key: value for key, value in found.items() if not isinstance(value, Unread)}

    @cached_property
    def full_name(self) -> str:
        """The node's own host name; if it was not read or is none, the host as the user gave it."""
        own = str(self.get("os.hostname") or "")
        return self.named or (own if HOST_NAME.fullmatch(own) else self.host)

    @property
    def name(self) -> str:
        """The host name without its domain."""
        return self.full_name.partition(".")[0]

    @property
    def order(self) -> tuple[str, int, str]:
        """A key that sorts worker2 before worker10."""
        match = NUMBERED.fullmatch(self.name)
        assert match is not None
        before, digits, after = match.groups()
        return before, int(digits or 0), after

    @property
    def slurm(self) -> Mapping[str, Any]:
        """What slurm.conf says; {} if the node has none."""
        return self.items("describe.slurm")

    def is_active(self, unit: str) -> bool:
        """Return whether a unit runs."""
        state = self.items("units").get(unit)
        return isinstance(state, dict) and state.get("active") == "active"

    def package(self, name: str) -> str:
        """Return the installed version of a package; "" if it is not installed."""
        return str(self.items("packages").get(name, ""))
