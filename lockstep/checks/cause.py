"""Causes: which finding of another rule explains which finding of a rule."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class At(enum.Enum):
    """Where the finding of the cause is, seen from the finding that it explains."""

    NODE = "same node"
    DEVICE = "same device of the same node"
    CONTROLLER = "the node that runs slurmctld"


SAME_DEVICE, CONTROLLER = At.DEVICE, At.CONTROLLER


@dataclass(frozen=True)
class Effect:
    """The findings of a rule that a cause explains; by default all of them."""

    device: str | None = None
    """Only the finding on this device."""
    found: str = ""
    """Only findings whose ``found`` holds this text."""
    unread: bool = False
    """Only what could not be read, never a difference."""
    tag: str = ""
    """Only findings with this tag (``Rule.tags``)."""


EVERY = Effect()
UNREAD = Effect(unread=True)


@dataclass(frozen=True)
class Cause:
    """A finding of another rule that makes a finding a mere consequence."""

    rule: str
    """Its id; ``munge.*`` for all of a family."""
    device: str | None = None
    """Only its finding on this device."""
    tag: str = ""
    """Only its findings with this tag."""
    at: At = At.NODE
    of: Effect = EVERY


def causes(*rules: str, at: At = At.NODE, of: Effect = EVERY) -> tuple[Cause, ...]:
    """Return one cause per rule, all alike."""
    return tuple(Cause(rule, at=at, of=of) for rule in rules)
