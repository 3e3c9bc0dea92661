"""One difference on one node, for the functions that name the commands which revert it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from lockstep.checks.fingerprint.objects import Fields

Steps = Sequence[str]
"""Commands that are run one after the other; each only if the one before it succeeded."""


@dataclass(frozen=True)
class Case:
    """A difference of an object on one node."""

    name: str
    wrong: Fields | None
    """The fields on the node; None if it lacks the object."""
    right: Fields | None
    """The fields that it should have; None if it should lack the object."""
    family: Literal["debian", "rhel"] = "debian"
    """Family of the node's operating system."""

    @property
    def is_extra(self) -> bool:
        """Return whether the node should lack the object."""
        return self.right is None

    @property
    def is_missing(self) -> bool:
        """Return whether the node lacks the object."""
        return self.wrong is None

    def was(self, field: str) -> str:
        """Return the value of a field on the node, "" if it has none."""
        return (self.wrong or {}).get(field, "")

    def should(self, field: str) -> str:
        """Return the right value of a field, "" if there is none."""
        return (self.right or {}).get(field, "")

    @property
    def changed(self) -> frozenset[str]:
        """The fields that differ."""
        names = {*(self.wrong or ()), *(self.right or ())}
        return frozenset(name for name in names if self.was(name) != self.should(name))


Revert = Callable[[Case], Steps]
"""Returns the commands; none if no command is known to be right."""


def command(*words: str) -> str:
    """Return a command whose words are quoted for a shell."""
    return shlex.join(words)
