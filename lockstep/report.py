"""Findings: what differs, on which node, where the expected value comes from, how to repair it.

Findings are plain values; nothing here raises. ``lockstep.forms`` formats them. The exit status of
every command that checks nodes comes from ``Report.exit_status``.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ClusterShell.NodeSet import NodeSet


class Severity(enum.Enum):
    """How badly a finding affects the jobs on the node."""

    ERROR = "error"
    WARNING = "warning"


class Status(enum.Enum):
    """Kind of a finding's result. Only ``DIFFERS`` and ``UNDECIDED`` mean "wrong"."""

    DIFFERS = "differs"
    """The reading differs from the expected value."""
    UNDECIDED = "undecided"
    """Peers disagree without a majority: all values are shown, and no node is named as wrong."""
    PENDING_REBOOT = "pending reboot"
    """The setting is on disk but takes effect at the next reboot: neither ok nor drift."""
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


@dataclass(frozen=True, order=True)
class Finding:
    """One deviation. ``node`` is a folded set (``worker[1-4]``) when no single node is wrong."""

    rule: str
    node: str
    device: str
    """Device or item on the node: ``gpu3``, a unit, a file, a sysctl key; "" for the node."""
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
    """Roles whose deploy on ``node`` is the repair; empty when no deploy repairs it."""
    since: str = ""
    """Time of the first of the consecutive checks with this finding; "" without history."""
    checks: int = 0
    """Number of consecutive checks with this finding."""

    @property
    def history(self) -> str:
        """Return the time of the first occurrence and the number of checks; "" without history."""
        return f"{self.since} ({count(self.checks, 'check')})" if self.since else ""


OFF_NAMED = 5
"""Up to this number, rules that are switched off are listed with their reasons."""


@dataclass(frozen=True)
class SwitchedOff:
    """A rule that the site switched off, with its reason."""

    rule: str
    classes: tuple[str, ...]
    """Hardware classes for which the rule is off; empty: all classes."""
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
    """Checks that were not possible and are not findings, one sentence each."""
    off: tuple[SwitchedOff, ...] = ()
    """Rules that the site's description switches off."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return everything that was not checked, one sentence each."""
        off = [off.text for off in self.off]
        if len(off) > OFF_NAMED:
            rules = ", ".join(sorted({off.rule for off in self.off}))
            off = [f"switched off (lockstep rules INVENTORY shows why): {rules}"]
        return (*off, *self.notes)

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings."""
        self.findings.extend(findings)

    def __iter__(self) -> Iterator[Finding]:
        """Yield the findings in a fixed order: errors first, then by rule, node and device."""
        return iter(sorted(self.findings, key=lambda f: (f.severity, f.rule, f.node, f.device)))

    def with_status(self, *statuses: Status) -> list[Finding]:
        """Return the findings with one of these statuses."""
        wanted = {status.value for status in statuses}
        return [finding for finding in self if finding.status in wanted]

    @property
    def exit_status(self) -> ExitStatus:
        """1 for differences, 2 when only readings are missing, 0 when everything is consistent.

        A pending reboot is a difference between the desired and the running state: it counts as 1.
        """
        if self.with_status(Status.DIFFERS, Status.UNDECIDED, Status.PENDING_REBOOT):
            return ExitStatus.DIFFERS
        if self.with_status(Status.UNKNOWN):
            return ExitStatus.UNREAD
        return ExitStatus.CONSISTENT

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.document(), indent=2) + "\n"

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
        }

    def summary(self) -> str:
        """Return the last line of the text report: the counts and the exit status."""
        wrong = len(self.with_status(Status.DIFFERS, Status.UNDECIDED))
        pending = len(self.with_status(Status.PENDING_REBOOT))
        unread = len(self.with_status(Status.UNKNOWN))
        judged = f"{count(len(self.nodes), 'node')}, {count(len(self.rules), 'rule')}"
        if not self.findings:
            return f"{judged}: all consistent. Nothing was changed. Exit 0."
        parts = [
            text
            for number, text in (
                (wrong, f"{wrong} differing"),
                (pending, f"{pending} waiting for a reboot"),
                (unread, f"{unread} not read"),
            )
            if number
        ]
        counts = f"{judged}, {count(len(self.findings), 'finding')}: {', '.join(parts)}."
        return f"{counts} Nothing was changed. Exit {int(self.exit_status)}."


def count(number: int, noun: str) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def fold(names: Iterable[str]) -> str:
    """Return node names in hostlist notation: ``worker[1-3,7]``."""
    return str(NodeSet.fromlist(sorted(names)))
