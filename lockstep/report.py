"""Findings: what differs, on which node, who says so, and what repairs it.

Findings are values: they are collected, merged and printed once; nothing here raises.
The exit status of every command that judges nodes comes from ``Report.exit_status``.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from xml.etree import ElementTree

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
    since: str = ""
    """When the current unbroken row of checks with this finding began; "" where none are kept."""
    checks: int = 0
    """How many checks are in that row."""

    @property
    def history(self) -> str:
        """Return since when and how often it was found; "" where that is not kept."""
        return f"{self.since} ({_count(self.checks, 'check')})" if self.since else ""


@dataclass
class Report:
    """All findings of one run, and what was looked at to get them."""

    nodes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    """What was not judged and is no finding, one sentence each."""

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
        """Return the report for programs: its status, nodes, rules, notes, findings."""
        document: dict[str, Any] = {
            "format": 1,
            "exit_status": int(self.exit_status),
            "nodes": list(self.nodes),
            "rules": list(self.rules),
            "notes": list(self.notes),
            "findings": [asdict(finding) for finding in self],
        }
        return json.dumps(document, indent=2) + "\n"

    def to_junit(self) -> str:
        """Return the report as JUnit XML: one test case per rule, one failure per finding."""
        by_rule: dict[str, list[Finding]] = {rule: [] for rule in self.rules}
        for finding in self:
            by_rule.setdefault(finding.rule, []).append(finding)
        suite = ElementTree.Element("testsuite", name="lockstep check", tests=str(len(by_rule)))
        failures = errors = 0
        for rule, findings in by_rule.items():
            case = ElementTree.SubElement(suite, "testcase", classname="lockstep.check", name=rule)
            for finding in findings:
                unread = finding.status == Status.UNKNOWN.value
                failures, errors = failures + (not unread), errors + unread
                message = f"{finding.node} {finding.device} {finding.field}".replace("  ", " ")
                tag = "error" if unread else "failure"
                entry = ElementTree.SubElement(case, tag, message=message, type=finding.status)
                entry.text = sentence(finding)
        suite.set("failures", str(failures))
        suite.set("errors", str(errors))
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"

    def to_text(self) -> str:
        """Return the report for people: one block per finding, then one line of summary.

        What differs alike on several nodes is one block that names them all.
        """
        lines: list[str] = []
        for finding in _merged(self):
            lines.extend(_block(finding))
        lines.extend(self.notes)
        lines.append(self.summary())
        return "\n".join(lines) + "\n"

    def summary(self) -> str:
        """Return the last line of the text form: counts, and what the exit status means."""
        wrong = len(self.with_status(Status.DIFFERS, Status.UNDECIDED))
        pending = len(self.with_status(Status.PENDING_REBOOT))
        unread = len(self.with_status(Status.UNKNOWN))
        counts = f"{_count(len(self.nodes), 'node')}, {_count(len(self.rules), 'rule')}: "
        if not self.findings:
            return counts + "all consistent. Nothing was changed. Exit 0."
        said = [
            text
            for count, text in (
                (wrong, f"{wrong} differing"),
                (pending, f"{pending} waiting for a reboot"),
                (unread, f"{unread} not read"),
            )
            if count
        ]
        return f"{counts}{', '.join(said)}. Nothing was changed. Exit {int(self.exit_status)}."


def sentence(finding: Finding) -> str:
    """Return a finding as one line of plain text."""
    where = " ".join(part for part in (finding.node, finding.device, finding.field) if part)
    detail = f"{finding.detail}. " if finding.detail else ""
    detail += f"Since {finding.history}. " if finding.history else ""
    return (
        f"{where}: found {finding.found}, expected {finding.expected} "
        f"(says: {finding.reference}). {detail}Repair: {finding.repair}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def fold(names: Iterable[str]) -> str:
    """Return node names in the operators' notation: ``worker[1-3,7]``."""
    return str(NodeSet.fromlist(sorted(names)))


NAMED_IN_A_COMMAND = 8
"""Up to this many nodes a merged repair names each; beyond, it names their group."""


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings that differ in nothing but their node as one, in the same order."""
    alike: dict[Finding, list[Finding]] = {}
    for finding in findings:
        repair = _named(finding.repair, finding.node, "{node}")
        what = replace(finding, node="", repair=repair, since="", checks=0)
        alike.setdefault(what, []).append(finding)
    merged = []
    for same in alike.values():
        nodes = [finding.node for finding in same]
        first = same[0]
        if len(nodes) > 1:
            names = fold(nodes)
            if len(nodes) <= NAMED_IN_A_COMMAND:
                limit = " ".join(f"--limit {node}" for node in nodes)
            else:
                limit = r"--limit \1"
            # pyinfra reads [1-16] as a set of characters: a folded name would be another node.
            repair = re.sub(
                rf"(?<=deploys/)(\w+)\.py --limit {re.escape(first.node)}(?![\w-])",
                rf"\1.py {limit}",
                first.repair,
            )
            # Not a role: that deploy is for whoever needs it.
            repair = repair.replace("reboot.py --limit reboot", "reboot.py")
            if repair == first.repair:
                repair = _named(repair, first.node, names)
            oldest = min(same, key=lambda finding: (finding.since, -finding.checks))
            first = replace(
                first, node=names, repair=repair, since=oldest.since, checks=oldest.checks
            )
        merged.append(first)
    return merged


def _named(text: str, node: str, name: str) -> str:
    return re.sub(rf"(?<![\w-]){re.escape(node)}(?![\w-])", lambda _: name, text)


def _block(finding: Finding) -> list[str]:
    head = {
        Status.UNKNOWN.value: "UNKNOWN",
        Status.PENDING_REBOOT.value: "REBOOT ",
    }.get(finding.status, finding.severity.upper().ljust(7))
    where = " ".join(part for part in (finding.node, finding.device) if part)
    block = [
        f"{head} {finding.rule}  {where}",
        f"  reading   {finding.field}",
        f"  found     {finding.found}",
        f"  expected  {finding.expected}   (says: {finding.reference})",
    ]
    if finding.detail:
        block.append(f"  detail    {finding.detail}")
    if finding.history:
        block.append(f"  since     {finding.history}")
    block += [f"  repair    {finding.repair}", ""]
    return block
