"""Findings: what differs and where, the source of the expected value, and the repair.

Findings are plain values; nothing here raises. ``lockstep.forms`` formats them. The exit status of
every command that checks nodes comes from ``Report.exit_status``.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from ClusterShell.NodeSet import NodeSet

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Severity(enum.Enum):
    """How badly a finding affects the node and its jobs; the worst comes first."""

    ERROR = "error"
    """It can break the node, or open it to somebody."""
    WARNING = "warning"
    """It can slow the node, or jobs with this node."""
    NOTICE = "notice"
    """It has no such effect. Reports fold notices, but they count as all findings do."""


def worst(severities: Iterable[Severity]) -> Severity:
    """Return the worst of some severities, of which there is at least one."""
    return min(severities, key=[*Severity].index)


class Status(enum.Enum):
    """What a finding means. Only ``DIFFERS`` and ``UNDECIDED`` mean that something is wrong."""

    DIFFERS = "differs"
    """The reading differs from the expected value."""
    UNDECIDED = "undecided"
    """The peers disagree and no value has a majority, so no node is reported as wrong."""
    PENDING_REBOOT = "pending reboot"
    """The setting is on disk but takes effect after the next reboot: neither ok nor drift."""
    UNKNOWN = "unknown"
    """The value could not be read; never counted as ok."""


class Reference(enum.Enum):
    """Source of the expected value."""

    SPEC = "spec"
    DEVICE = "device"
    PEERS = "peers"
    EARLIER = "earlier record"


class ExitStatus(enum.IntEnum):
    """Exit statuses of ``lockstep check`` and of every other command that checks nodes."""

    CONSISTENT = 0
    DIFFERS = 1
    UNREAD = 2
    WRONG_USE = 3


@dataclass(frozen=True)
class Part:
    """What a site can accept of a finding: an object, or an item of a rule."""

    rule: str
    object: str
    nodes: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    """Field -> hashes of what was found; "" is the whole object."""


@dataclass(frozen=True)
class Accepted:
    """A difference that a site accepts, which is no finding."""

    rule: str
    node: str
    device: str
    field: str
    """The field that may differ; "" for the whole object."""
    found: str
    by: str
    until: str
    """The last day, in UTC: ``2027-01-31``."""
    reason: str

    @property
    def text(self) -> str:
        """Return the difference, its author and its reason as one line."""
        place = " ".join(filter(None, (self.rule, self.node, self.device, self.field)))
        return (
            f"{place}: {self.found or 'any value'}, until {self.until} by {self.by}: {self.reason}"
        )


@dataclass(frozen=True, order=True)
class Finding:
    """One difference or failed reading.

    ``node`` lists several nodes if the difference cannot be attributed to one of them.
    """

    rule: str
    node: str
    device: str
    """Device or item on the node: ``gpu3``, a unit, a file, a sysctl key; "" is the node itself."""
    field: str
    """Name of the reading that differs, as in the record."""
    found: str
    expected: str
    reference: str
    repair: str
    severity: str = Severity.ERROR.value
    status: str = Status.DIFFERS.value
    detail: str = ""
    roles: tuple[str, ...] = ()
    """Roles whose deploy on ``node`` repairs the finding; empty if no deploy repairs it."""
    since: str = ""
    """Time since which every check has had this finding; "" if there is no history."""
    checks: int = 0
    """Number of consecutive checks with this finding."""
    changed: str = ""
    """When the object has changed, as far as earlier fingerprints tell: ``between TIME and TIME``,
    ``before TIME``; "" if it is not known."""
    parts: tuple[Part, ...] = dataclasses.field(default=(), compare=False, repr=False)
    """The object and its consequences, if a fingerprint found them."""

    @property
    def label(self) -> str:
        """Return the word for reports: UNKNOWN, REBOOT or, for other statuses, the severity."""
        words = {Status.UNKNOWN.value: "UNKNOWN", Status.PENDING_REBOOT.value: "REBOOT"}
        return words.get(self.status, self.severity.upper())

    @property
    def history(self) -> str:
        """Return ``since`` and the number of checks as one text; "" if there is no history."""
        return f"{self.since} ({count(self.checks, 'check')})" if self.since else ""


OFF_NAMED = 5
"""Maximum number of switched-off rules that are listed with their reasons."""


@dataclass(frozen=True)
class SwitchedOff:
    """A rule that the site switched off, and the reason."""

    rule: str
    classes: tuple[str, ...]
    """Hardware classes for which the rule is off; empty if it is off for all classes."""
    reason: str

    @property
    def text(self) -> str:
        """Return the rule, its classes and the reason as one line."""
        where = f" for class {', '.join(self.classes)}" if self.classes else ""
        return f"switched off{where}: {self.rule}: {self.reason}"


@dataclass
class Report:
    """All findings of one run, with the nodes and rules that were checked."""

    nodes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    """One sentence for each check that was not possible and gave no finding."""
    off: tuple[SwitchedOff, ...] = ()
    """Rules that the site's description switches off."""
    hidden: list[Finding] = field(default_factory=list)
    """Findings that are not shown; the counts and the exit status include them."""
    accepted: list[Accepted] = field(default_factory=list)
    """Differences that the site accepts; the exit status does not include them."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return everything that was not checked, one line each."""
        off = [off.text for off in self.off]
        if len(off) > OFF_NAMED:
            rules = ", ".join(sorted({off.rule for off in self.off}))
            off = [f"switched off (lockstep rules INVENTORY shows why): {rules}"]
        return (*off, *self.notes)

    def __iter__(self) -> Iterator[Finding]:
        """Yield the findings in a fixed order: the worst first, then by rule, node and device."""
        rank = [severity.value for severity in Severity].index
        return iter(
            sorted(self.findings, key=lambda f: (rank(f.severity), f.rule, f.node, f.device))
        )

    @property
    def exit_status(self) -> ExitStatus:
        """Return 0 for no findings, 1 for differences, 2 if all findings are unread values.

        Notices count: nodes that differ are not equal. A pending reboot counts as a difference
        between the desired and the running state.
        """
        found = {finding.status for finding in (*self.findings, *self.hidden)}
        if not found:
            return ExitStatus.CONSISTENT
        return ExitStatus.UNREAD if found == {Status.UNKNOWN.value} else ExitStatus.DIFFERS

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        return {
            "format": 1,
            "exit_status": int(self.exit_status),
            "nodes": list(self.nodes),
            "rules": list(self.rules),
            "notes": list(self.notes),
            "switched_off": [asdict(off) for off in self.off],
            "findings": [asdict(finding) for finding in self],
            "accepted": [asdict(one) for one in self.accepted],
        }

    def summary(self) -> str:
        """Return the last line of the text report: the counts and the exit status."""
        every = [*self.findings, *self.hidden]
        number = Counter(Status(finding.status) for finding in every)
        parts = {
            "differing": number[Status.DIFFERS] + number[Status.UNDECIDED],
            "waiting for a reboot": number[Status.PENDING_REBOOT],
            "not read": number[Status.UNKNOWN],
        }
        counted = ", ".join(f"{number} {result}" for result, number in parts.items() if number)
        found = f", {count(len(every), 'finding')}: {counted}" if every else ": all consistent"
        if self.accepted:
            found += f", {count(len(self.accepted), 'accepted difference')}"
        hidden = f" {len(self.hidden)} not shown (--severity)." if self.hidden else ""
        return (
            f"{count(len(self.nodes), 'node')}, {count(len(self.rules), 'rule')}{found}. "
            f"Nothing was changed. Exit {int(self.exit_status)}.{hidden}"
        )


def count(number: int, noun: str) -> str:
    """Return the number with its noun: ``1 node``, ``2 nodes``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def fold(names: Iterable[str]) -> str:
    """Return node names in hostlist notation: ``worker[1-3,7]``."""
    return _folded(tuple(sorted(names)))


@lru_cache(maxsize=64)
def _folded(names: tuple[str, ...]) -> str:
    # Many findings name the same nodes as right, and folding 2,000 names takes 20 ms.
    return str(NodeSet.fromlist(names))


def alike(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group items by key; the keys and the items keep their order."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
