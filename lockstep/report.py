"""Findings: what differs, on which node, who says so, and what repairs it.

Findings are values: they are collected and judged once; nothing here raises. How they are
shown is the matter of ``lockstep.forms``. The exit status of every command that judges nodes comes
from ``Report.exit_status``.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ClusterShell.NodeSet import NodeSet


class Severity(enum.Enum):
    """How much a finding costs the jobs on the node."""

    ERROR = "error"
    WARNING = "warning"


class Status(enum.Enum):
    """What kind of result a finding is. Only ``DIFFERS`` and ``UNDECIDED`` say "wrong"."""

    DIFFERS = "differs"
    """The reading is not what the reference says."""
    UNDECIDED = "undecided"
    """Peers disagree without a majority: both sides are shown, nobody is blamed."""
    PENDING_REBOOT = "pending reboot"
    """Written to disk as wanted, not yet in force: neither ok nor drifted."""
    UNKNOWN = "unknown"
    """The reading could not be taken: never the same as ok."""


class Reference(enum.Enum):
    """Who says what the value should be."""

    SPEC = "spec"
    DEVICE = "device"
    PEERS = "peers"
    EARLIER = "earlier record"


class ExitStatus(enum.IntEnum):
    """Exit statuses of ``lockstep check`` (and of every face of the same engine)."""

    CONSISTENT = 0
    DIFFERS = 1
    UNREAD = 2
    WRONG_USE = 3


@dataclass(frozen=True, order=True)
class Finding:
    """One deviation. ``node`` may be a folded set (``worker[1-4]``) where nobody is blamed."""

    rule: str
    node: str
    device: str
    """Device or item inside the node: ``gpu3``, a unit, a file, a sysctl key; "" for the node."""
    field: str
    """The reading that differs, in the record's own name."""
    found: str
    expected: str
    reference: str
    repair: str
    severity: str = Severity.ERROR.value
    status: str = Status.DIFFERS.value
    detail: str = ""
    roles: tuple[str, ...] = ()
    """Roles whose deploy on ``node`` is the repair; none where it is not a deploy's."""
    since: str = ""
    """When the current unbroken row of checks with this finding began; "" where none are kept."""
    checks: int = 0
    """How many checks are in that row."""

    @property
    def history(self) -> str:
        """Return since when and how often it was found; "" where that is not kept."""
        return f"{self.since} ({count(self.checks, 'check')})" if self.since else ""


OFF_NAMED = 5
"""Up to this many rules that are switched off are said one by one."""


@dataclass(frozen=True)
class SwitchedOff:
    """A rule that a site does not want judged, and its reason."""

    rule: str
    classes: tuple[str, ...]
    """Hardware classes without it; none: all of them."""
    reason: str

    @property
    def text(self) -> str:
        """Return it as one sentence."""
        where = f" for class {', '.join(self.classes)}" if self.classes else ""
        return f"switched off{where}: {self.rule}: {self.reason}"


@dataclass
class Report:
    """All findings of one run, and what was looked at to get them."""

    nodes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    """What was not judged and is no finding, one sentence each."""
    off: tuple[SwitchedOff, ...] = ()
    """What the site's description says is not judged."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return all that was not judged, one sentence each."""
        off = [off.text for off in self.off]
        if len(off) > OFF_NAMED:
            rules = ", ".join(sorted({off.rule for off in self.off}))
            off = [f"switched off (lockstep rules INVENTORY says why): {rules}"]
        return (*off, *self.notes)

    def add(self, findings: Iterable[Finding]) -> None:
        """Take in more findings."""
        self.findings.extend(findings)

    def __iter__(self) -> Iterator[Finding]:
        """Yield the findings in a fixed order: errors first, then by rule, node and device."""
        return iter(sorted(self.findings, key=lambda f: (f.severity, f.rule, f.node, f.device)))

    def with_status(self, *statuses: Status) -> list[Finding]:
        """Return the findings of these kinds."""
        wanted = {status.value for status in statuses}
        return [finding for finding in self if finding.status in wanted]

    @property
    def exit_status(self) -> ExitStatus:
        """1 when something differs, 2 when only readings are missing, 0 when all is consistent.

        A pending reboot is a difference between what is wanted and what runs: it counts as 1.
        """
        if self.with_status(Status.DIFFERS, Status.UNDECIDED, Status.PENDING_REBOOT):
            return ExitStatus.DIFFERS
        if self.with_status(Status.UNKNOWN):
            return ExitStatus.UNREAD
        return ExitStatus.CONSISTENT

    def to_json(self) -> str:
        """Return the document as text."""
        return json.dumps(self.document(), indent=2) + "\n"

    def document(self) -> dict[str, Any]:
        """Return the report for programs: its status, nodes, rules, notes, findings."""
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
        """Return the last line of the text form: counts, and what the exit status means."""
        wrong = len(self.with_status(Status.DIFFERS, Status.UNDECIDED))
        pending = len(self.with_status(Status.PENDING_REBOOT))
        unread = len(self.with_status(Status.UNKNOWN))
        judged = f"{count(len(self.nodes), 'node')}, {count(len(self.rules), 'rule')}"
        if not self.findings:
            return f"{judged}: all consistent. Nothing was changed. Exit 0."
        said = [
            text
            for number, text in (
                (wrong, f"{wrong} differing"),
                (pending, f"{pending} waiting for a reboot"),
                (unread, f"{unread} not read"),
            )
            if number
        ]
        counts = f"{judged}, {count(len(self.findings), 'finding')}: {', '.join(said)}."
        return f"{counts} Nothing was changed. Exit {int(self.exit_status)}."


def count(number: int, noun: str) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def fold(names: Iterable[str]) -> str:
    """Return node names in the operators' notation: ``worker[1-3,7]``."""
    return str(NodeSet.fromlist(sorted(names)))
