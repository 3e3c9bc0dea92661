"""What a site says of the check: rules of its own, and ours as it wants them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from lockstep.spec.fields import Model, Name, SiteRuleId

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]
SEVERITIES = Literal["error", "warning"]

EACH = "*"
"""A key of a path that stands for every item, which is then the device of a finding."""


class Override(Model):
    """What a site changes of one of our rules."""

    rule: str
    off: Line | None = None
    """Why it is not judged; the report says so each time."""
    severity: SEVERITIES | None = None
    """Of what differs; what could not be read stays as severe as it is."""
    tolerance: Share | None = None
    """Kind within: share of the peers' median. Kind growth: how much more an hour is fine."""
    classes: tuple[Name, ...] = ()
    """Hardware classes that it is for; none: all of them."""

    def covers(self, hardware: str) -> bool:
        """Say whether it is for a hardware class."""
        return not self.classes or hardware in self.classes


class SiteRule(Model):
    """A rule of the site's own, as data."""

    id: SiteRuleId
    title: Line
    """The claim: what is so on every node that keeps the rule."""
    reading: str
    """Name of a reading, as records have it."""
    path: tuple[str, ...] = ()
    """Keys inside of it, one of them "*" for every item; none: the reading as it is."""
    kind: Literal["equal", "multiset", "slots", "within", "unique", "growth", "absolute"]
    expected: JsonValue = None
    """Kinds equal, slots, absolute: the value, or the bound. None: what the peers have."""
    bound: Literal["at least", "at most"] | None = None
    """Kinds absolute, within: the right side of it."""
    tolerance: Share | None = None
    """As that of an override."""
    peers: Literal["class", "role", "os"] = "class"
    classes: tuple[Name, ...] = ()
    """Hardware classes that it is for; none: all of them."""
    severity: SEVERITIES = "error"
    source: Line
    """Where the rule comes from."""
    repair: Line
    """What a person does; {node} {device} {expected} and the like are filled in."""
    local: Literal["health", "jobs"] | None = None
    """The node judges itself by it too, and drains: as a health check, or before jobs as well."""


class Checks(Model):
    """What a site says of the check."""

    overrides: tuple[Override, ...] = ()
    rules: tuple[SiteRule, ...] = ()
