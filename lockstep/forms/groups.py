"""Groups findings: devices by node, nodes by value, values by rule."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from ClusterShell.NodeSet import NodeSet
from typing_extensions import override

from lockstep.forms import joined, plain
from lockstep.report import Finding, Severity, Status, fold

NAMED_IN_A_COMMAND = 8
"""Maximum number of nodes in a pyinfra command; for more, ``lockstep repair`` is suggested."""
NODE_IN_REPAIR = (
    r"(?:(?P<deploy>pyinfra -y (?P<inventory>\S+) deploys/(?P<file>\w+)\.py) --limit |"
    r"(?P<limit>--limit )|(?<![\w-])){}(?![\w-])(?(deploy)(?P<roles> --data roles=[\w,]*\w)?)"
)
"""A node in a repair: in a deploy's --limit, in the --limit of lockstep, or on its own."""
WORD = re.compile(r"[\w-]+")
NUMBERED = re.compile(r"[A-Za-z_]+\d+(_\d+)?")
"""Devices that are folded like node names; others (files, units) are not."""
FOLDED = re.compile(r"\w+\[[\d,-]+\]")
APART = ("node", "device", "repair", "since", "checks")
BESIDES = attrgetter(*(one.name for one in fields(Finding) if one.name not in APART))
BY_SEVERITY = tuple(severity.value for severity in Severity)
BY_STATUS = tuple(status.value for status in Status)


@dataclass(frozen=True)
class Place:
    """A device, and the nodes on which it has a finding."""

    nodes: str
    device: str

    @override
    def __str__(self) -> str:
        """Return ``worker[1-2] gpu[0-7]``."""
        return joined((self.nodes, self.device))


@dataclass(frozen=True)
class Value:
    """A wrong value, the expected value and all places with this finding."""

    found: str
    expected: str
    reference: str
    details: tuple[str, ...]
    places: tuple[Place, ...]
    nodes: frozenset[str]
    history: str
    """Age and count of the oldest of these findings; "" without history."""

    @override
    def __str__(self) -> str:
        """Return the value found, the value expected and the source of the latter."""
        return f"{self.found}, expected {self.expected} (from: {self.reference})"


@dataclass(frozen=True)
class Repair:
    """A repair for several nodes, and the same repair for the first node only."""

    text: str
    nodes: int
    first: str


@dataclass(frozen=True)
class Group:
    """All findings of one rule with the same severity and status."""

    rule: str
    field: str
    severity: str
    status: str
    devices: int
    """Total over all nodes; a finding about the node itself counts as one."""
    nodes: frozenset[str]
    values: tuple[Value, ...]
    """Sorted by number of nodes, highest first."""
    repairs: tuple[Repair, ...]
    """Sorted by number of nodes, highest first."""
    since: str
    """Age of the oldest finding; "" without history."""

    @property
    def anchor(self) -> str:
        """Return an identifier that is unique within a report."""
        return f"{self.rule}-{self.severity}-{self.status}".replace(" ", "-")

    @property
    def label(self) -> str:
        """Return the first word of the group's heading."""
        return label(self.status, self.severity)


def label(status: str, severity: str) -> str:
    """Return the word for a result: UNKNOWN or REBOOT by status, else its severity."""
    words = {Status.UNKNOWN.value: "UNKNOWN", Status.PENDING_REBOOT.value: "REBOOT"}
    return words.get(status, severity.upper())


def rank(result: Finding | Group) -> tuple[int, int]:
    """Return a sort key: most severe first."""
    return BY_SEVERITY.index(result.severity), BY_STATUS.index(result.status)


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Return the findings grouped by rule: most severe first, then by number of nodes."""
    rules: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        key = (finding.severity, finding.status, finding.rule)
        rules.setdefault(key, []).append(cleaned(finding))
    groups = [_group(found) for found in rules.values()]
    return sorted(
        groups,
        key=lambda group: (rank(group), -len(group.nodes), group.rule),
    )


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings that differ only in device or node; keep the order."""
    merged = []
    for same in _alike(_devices_folded(map(cleaned, findings))):
        nodes = [finding.node for finding in same]
        node = fold(nodes) if len(same) > 1 else nodes[0]
        merged.append(replace(_dated(same), node=node, repair=_repair(same[0], nodes)))
    return merged


def devices(finding: Finding) -> list[str]:
    """Return the devices of a finding, expanded."""
    return list(NodeSet(finding.device)) if FOLDED.fullmatch(finding.device) else [finding.device]


def nodes_of(finding: Finding) -> list[str]:
    """Return the nodes of a finding, expanded."""
    return list(NodeSet(finding.node)) if "[" in finding.node else finding.node.split(",")


def cleaned(finding: Finding) -> Finding:
    """Return the finding with its texts made safe to print."""
    if all(str(text).isprintable() for text in vars(finding).values()):
        return finding
    texts: dict[str, Any] = {
        name: plain(text) for name, text in vars(finding).items() if isinstance(text, str)
    }
    return replace(finding, **texts)


def _group(findings: list[Finding]) -> Group:
    first = findings[0]
    by_value: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in _devices_folded(findings):
        key = (finding.found, finding.expected, finding.reference)
        by_value.setdefault(key, []).append(finding)
    values = [_value(same) for same in by_value.values()]
    repairs = [
        Repair(_repair(same[0], nodes), len(nodes), same[0].repair)
        for same in _by_repair(findings)
        if (nodes := sorted({finding.node for finding in same}))
    ]
    return Group(
        rule=first.rule,
        field=first.field,
        severity=first.severity,
        status=first.status,
        devices=sum(len(devices(finding)) for finding in findings),
        nodes=frozenset[str]().union(*(value.nodes for value in values)),
        values=tuple(sorted(values, key=lambda value: -len(value.nodes))),
        repairs=tuple(sorted(repairs, key=lambda repair: -repair.nodes)),
        since=_dated(findings).since,
    )


def _value(same: list[Finding]) -> Value:
    on: dict[str, list[str]] = {}
    for finding in same:
        on.setdefault(finding.device, []).append(finding.node)
    places = sorted(on.items(), key=lambda place: (-len(place[1]), place[0]))
    return Value(
        found=same[0].found,
        expected=same[0].expected,
        reference=same[0].reference,
        details=tuple(dict.fromkeys(finding.detail for finding in same if finding.detail)),
        places=tuple(Place(fold(nodes), device) for device, nodes in places),
        nodes=frozenset(node for finding in same for node in nodes_of(finding)),
        history=_dated(same).history,
    )


def _devices_folded(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings of a node that differ only in the number of the device."""
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        numbered = NUMBERED.fullmatch(finding.device)
        kind = "" if numbered else finding.device
        alike.setdefault((kind, finding.node, finding.repair, *BESIDES(finding)), []).append(
            finding
        )
    return [
        replace(_dated(same), device=fold(finding.device for finding in same))
        if len(same) > 1
        else same[0]
        for same in alike.values()
    ]


def _dated(same: list[Finding]) -> Finding:
    """Return the first of these findings, with the age and count of the oldest."""
    kept = [finding for finding in same if finding.since]
    oldest = min(kept, key=lambda finding: (finding.since, -finding.checks), default=same[0])
    return replace(same[0], since=oldest.since, checks=oldest.checks)


def _alike(findings: Iterable[Finding]) -> Iterable[list[Finding]]:
    """Return groups of findings that differ only in their node."""
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        repair = _named(finding.repair, finding.node, "{node}")
        alike.setdefault((finding.device, repair, *BESIDES(finding)), []).append(finding)
    return alike.values()


def _by_repair(findings: Iterable[Finding]) -> Iterable[list[Finding]]:
    alike: dict[str, list[Finding]] = {}
    for finding in findings:
        alike.setdefault(_named(finding.repair, finding.node, "{node}"), []).append(finding)
    return alike.values()


def _repair(first: Finding, nodes: list[str]) -> str:
    """Return the repair of the first node, rewritten for all of these nodes."""
    if len(nodes) < 2:
        return first.repair
    folded = fold(nodes)
    limit = f"--limit {shlex.quote(folded)}"
    # pyinfra treats [1-16] as a character set: a folded name would match other nodes.
    each = " ".join(f"--limit {node}" for node in nodes)

    def of_all(named: re.Match[str]) -> str:
        if not named["deploy"]:
            return limit if named["limit"] else folded
        if len(nodes) <= NAMED_IN_A_COMMAND:
            return f"{named['deploy']} {each}{named['roles'] or ''}"
        if named["file"] == "reboot":  # without a limit it reboots the nodes with a pending reboot
            return named["deploy"]
        return f"lockstep repair {named['inventory']} --rule {first.rule} {limit}"

    return re.sub(NODE_IN_REPAIR.format(re.escape(first.node)), of_all, first.repair)


def _named(text: str, node: str, name: str) -> str:
    return WORD.sub(lambda word: name if word[0] == node else word[0], text)
