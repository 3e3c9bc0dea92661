"""Site settings for the check: the site's own rules, and changes to the built-in rules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from lockstep.spec.fields import Model, Name, SiteRuleId

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]
SEVERITIES = Literal["error", "warning", "notice"]

EACH = "*"
"""Wildcard key in a path; it matches every item. A finding names the matched item as its device."""


class Override(Model):
    """A site's changes to one built-in rule."""

    rule: str
    """Id of a built-in rule."""
    off: Line | None = None
    """The reason for switching the rule off; every report shows it."""
    severity: SEVERITIES | None = None
    """New severity of differences; the severity of unreadable values does not change."""
    tolerance: Share | None = None
    """For kind "within": allowed deviation, as a fraction of the peers' median.

    For kind "growth": allowed increase per hour.
    """
    classes: tuple[Name, ...] = ()
    """Hardware classes that the override applies to; all classes if empty."""

    def covers(self, hardware: str) -> bool:
        """Return whether the override applies to a hardware class."""
        return not self.classes or hardware in self.classes


class SiteRule(Model):
    """A rule that the site defines, as data."""

    id: SiteRuleId
    """Id of the rule; it starts with ``site.``."""
    title: Line
    """The claim: a statement that must be true of every node."""
    reading: str
    """Name of a reading, as in a record."""
    path: tuple[str, ...] = ()
    """Keys inside the reading. "*" matches every item; an empty path selects all items."""
    kind: Literal["equal", "multiset", "slots", "within", "unique", "growth", "absolute"]
    """How values are judged (docs/checks.md)."""
    expected: JsonValue = None
    """For kinds "equal" and "slots": the expected value, or None to compare peers with each other.

    For kind "absolute": the bound.
    """
    bound: Literal["at least", "at most"] | None = None
    """For kind "absolute": whether ``expected`` is a lower or an upper bound.

    For kind "within": "at least" rejects values too far below the median, "at most" those too far
    above it.
    """
    tolerance: Share | None = None
    """See ``Override.tolerance``."""
    peers: Literal["class", "role", "os", "cluster", "nvlink_domain"] = "class"
    """The nodes that are compared with each other."""
    classes: tuple[Name, ...] = ()
    """Hardware classes that the rule applies to; all classes if empty."""
    severity: SEVERITIES = "error"
    """Severity of a difference."""
    source: Line
    """Reference for the rule: a document, a ticket or a person."""
    repair: Line
    """Instructions for the operator; names in braces, such as {node}, are filled in."""
    local: Literal["health", "jobs"] | None = None
    """When each node checks the rule itself; a failed check drains the node. None: never.

    "health": in the periodic health check. "jobs": also in the checks before and after each job.
    """


class NotCompared(Model):
    """What of the nodes' configuration the site does not compare."""

    domain: str
    """Domain of the fingerprint, such as "file"; ``lockstep rules`` lists them."""
    object: Line
    """Regular expression that matches the whole name of an object, such as a path."""
    field: Line = EACH
    """Name of the field that may differ; "*": the whole object."""
    reason: Line
    """The reason, for people who read the description."""


class Checks(Model):
    """Site settings for the check."""

    overrides: tuple[Override, ...] = ()
    """Changes to built-in rules."""
    rules: tuple[SiteRule, ...] = ()
    """The site's own rules."""
    exceptions: tuple[NotCompared, ...] = ()
    """Parts of the configuration that are not compared."""
    accepted: Line | None = None
    """File of the accepted differences (``lockstep accept``), relative to the inventory's folder;
    if None, ``prod.accepted.toml`` next to ``prod.py``."""
