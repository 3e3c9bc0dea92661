"""Site settings for the check: the site's own rules, and changes to the built-in rules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from lockstep.spec.fields import Model, Name, SiteRuleId

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]
SEVERITIES = Literal["error", "warning"]

EACH = "*"
"""Wildcard key in a path: it matches every item, and the item becomes the finding's device."""


class Override(Model):
    """A site's changes to one built-in rule."""

    rule: str
    off: Line | None = None
    """The reason for switching the rule off; every report shows it."""
    severity: SEVERITIES | None = None
    """New severity of differences; unreadable values keep their severity."""
    tolerance: Share | None = None
    """Kind within: allowed deviation, as a fraction of the peers' median.

    Kind growth: allowed increase per hour.
    """
    classes: tuple[Name, ...] = ()
    """Hardware classes that the rule applies to; empty: all classes."""

    def covers(self, hardware: str) -> bool:
        """Return whether the override applies to a hardware class."""
        return not self.classes or hardware in self.classes


class SiteRule(Model):
    """A rule that the site defines, as data."""

    id: SiteRuleId
    title: Line
    """The claim: a statement that must be true of every node."""
    reading: str
    """Name of a reading, as in a record."""
    path: tuple[str, ...] = ()
    """Keys inside the reading; "*" matches every item. Empty: every item of the reading."""
    kind: Literal["equal", "multiset", "slots", "within", "unique", "growth", "absolute"]
    expected: JsonValue = None
    """Kinds equal, slots: the expected value; None: the peers' value. Kind absolute: the bound."""
    bound: Literal["at least", "at most"] | None = None
    """Kind absolute: whether ``expected`` is a lower or an upper bound.

    Kind within: whether values too far below ("at least") or above ("at most") the median fail.
    """
    tolerance: Share | None = None
    """As in ``Override.tolerance``."""
    peers: Literal["class", "role", "os"] = "class"
    classes: tuple[Name, ...] = ()
    """Hardware classes that the rule applies to; empty: all classes."""
    severity: SEVERITIES = "error"
    source: Line
    """Reference for the rule: a document, a ticket or a person."""
    repair: Line
    """Instructions for the operator; names in braces, such as {node}, are filled in."""
    local: Literal["health", "jobs"] | None = None
    """Node checks that apply the rule and drain the node if it fails; None: no node check does.

    "health": the periodic health check. "jobs": also the checks before and after each job.
    """


class Checks(Model):
    """Site settings for the check."""

    overrides: tuple[Override, ...] = ()
    rules: tuple[SiteRule, ...] = ()
