"""Groups findings: devices by node, nodes by value, values by rule."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from ClusterShell.NodeSet import NodeSet
from typing_extensions import override

from lockstep.report import Finding, Severity, Status, alike, fold

NAMED_IN_A_COMMAND = 8
"""Maximum number of nodes in a pyinfra command; for more, the repair is ``lockstep repair``."""
NODE_IN_REPAIR = (
    r"(?:(?P<deploy>pyinfra -y (?P<inventory>\S+) (?:\S*/)?deploys/(?P<file>\w+)\.py) --limit |"
    r"(?P<limit>--limit )|(?<![\w-])){}(?![\w-])(?(deploy)(?P<roles> --data roles=[\w,]*\w)?)"
)
"""Pattern for a node name in a repair, after --limit (of pyinfra or lockstep) or elsewhere."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
NUMBERED = re.compile(r"[A-Za-z_]+\d+(_\d+)?")
"""Device names that are folded like node names; others (files, units) are not."""
FOLDED = re.compile(r"\w+\[[\d,-]+\]")


@dataclass(frozen=True)
class Place:
    """A device, and the nodes on which it has a finding."""

    nodes: str
    device: str

    @override
    def __str__(self) -> str:
        """Return the nodes and the device: ``worker[1-2] gpu[0-7]``."""
        return f"{self.nodes} {self.device}".strip()


@dataclass(frozen=True)
class Value:
    """A found value, the expected value, and all places with this finding."""

    first: Finding
    """The first finding, but with the oldest finding's ``since`` and ``checks``."""
    details: tuple[str, ...]
    places: tuple[Place, ...]
    nodes: frozenset[str]

    @override
    def __str__(self) -> str:
        """Return the actual value, the expected value, and the source of the expected value."""
        first = self.first
        return f"{first.found}, expected {first.expected} (from: {first.reference})"


@dataclass(frozen=True)
class Repair:
    """A repair for several nodes, and the same repair for the first node only."""

    text: str
    nodes: int
    first: str


@dataclass(frozen=True)
class Group:
    """All findings of one rule with the same severity and status."""

    first: Finding
    """The first finding, but with the oldest finding's ``since`` and ``checks``."""
    devices: int
    """Number of devices on all nodes; a finding about the node itself counts as one."""
    nodes: frozenset[str]
    values: tuple[Value, ...]
    """Sorted by number of nodes, highest first."""
    repairs: tuple[Repair, ...]
    """Sorted by number of nodes, highest first."""

    @property
    def anchor(self) -> str:
        """Return an identifier that is unique within a report."""
        return anchor(self.first)


def anchor(finding: Finding) -> str:
    """Return the identifier of the finding's group, unique within a report."""
    return "-".join((finding.rule, finding.severity, *finding.status.split()))


def rank(finding: Finding) -> tuple[int, int]:
    """Return a sort key that puts the most severe findings first."""
    return [*Severity].index(Severity(finding.severity)), [*Status].index(Status(finding.status))


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Return the findings grouped by rule: most severe first, then by number of nodes."""
    rules = alike(map(cleaned, findings), attrgetter("severity", "status", "rule"))
    return sorted(
        map(_group, rules.values()),
        key=lambda group: (rank(group.first), -len(group.nodes), group.first.rule),
    )


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings that differ only in device or node; keep the order."""

    def of_any_node(finding: Finding) -> Finding:
        repair = _repair_of_any_node(finding)
        return replace(finding, node="", repair=repair, since="", checks=0, changed="")

    merged = []
    for same in alike(_devices_folded(map(cleaned, findings)), of_any_node).values():
        nodes = [finding.node for finding in same]
        node = fold(nodes) if len(same) > 1 else nodes[0]
        merged.append(replace(_dated(same), node=node, repair=_repair(same[0], nodes)))
    return merged


def devices(finding: Finding) -> list[str]:
    """Return the individual devices of a finding: ``gpu[0-1]`` -> ``gpu0``, ``gpu1``."""
    return list(NodeSet(finding.device)) if FOLDED.fullmatch(finding.device) else [finding.device]


def nodes_of(finding: Finding) -> list[str]:
    """Return the individual nodes of a finding: ``worker[1-2]`` -> ``worker1``, ``worker2``."""
    return list(NodeSet(finding.node)) if "[" in finding.node else finding.node.split(",")


def cleaned(finding: Finding) -> Finding:
    """Replace control characters: nodes can send them, and they are unsafe in terminals and XML."""
    if all(str(text).isprintable() for text in vars(finding).values()):
        return finding
    texts: dict[str, Any] = {
        name: CONTROL.sub("?", re.sub(r"[\t\n\r]+", " ", text))
        for name, text in vars(finding).items()
        if isinstance(text, str)
    }
    return replace(finding, **texts)


def _group(findings: list[Finding]) -> Group:
    by_value = alike(_devices_folded(findings), attrgetter("found", "expected", "reference"))
    values = [_value(same) for same in by_value.values()]
    repairs = [
        Repair(_repair(same[0], nodes), len(nodes), same[0].repair)
        for same in alike(findings, _repair_of_any_node).values()
        if (nodes := sorted({finding.node for finding in same}))
    ]
    return Group(
        first=_dated(findings),
        devices=sum(len(devices(finding)) for finding in findings),
        nodes=frozenset[str]().union(*(value.nodes for value in values)),
        values=tuple(sorted(values, key=lambda value: -len(value.nodes))),
        repairs=tuple(sorted(repairs, key=lambda repair: -repair.nodes)),
    )


def _value(same: list[Finding]) -> Value:
    by_device = alike(same, attrgetter("device"))
    places = sorted(by_device.items(), key=lambda place: (-len(place[1]), place[0]))
    return Value(
        first=_dated(same),
        details=tuple(dict.fromkeys(finding.detail for finding in same if finding.detail)),
        places=tuple(Place(fold(one.node for one in found), device) for device, found in places),
        nodes=frozenset(node for finding in same for node in nodes_of(finding)),
    )


def _devices_folded(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings on one node that differ only in the device number."""

    def of_any_number(finding: Finding) -> Finding:
        device = "" if NUMBERED.fullmatch(finding.device) else finding.device
        return replace(finding, device=device, since="", checks=0, changed="")

    return [
        replace(_dated(same), device=fold(finding.device for finding in same))
        if len(same) > 1
        else same[0]
        for same in alike(findings, of_any_number).values()
    ]


def _dated(same: list[Finding]) -> Finding:
    """Return the first finding, but with the oldest finding's ``since`` and ``checks``.

    ``changed`` names only a time at which all of them have changed.
    """
    kept = (finding for finding in same if finding.since)
    oldest = min(kept, key=lambda finding: (finding.since, -finding.checks), default=same[0])
    times = {finding.changed for finding in same}
    changed = times.pop() if len(times) == 1 else ""
    return replace(same[0], since=oldest.since, checks=oldest.checks, changed=changed)


def _repair_of_any_node(finding: Finding) -> str:
    """Return the repair with a placeholder in place of the node name."""
    return re.sub(
        r"[\w-]+",
        lambda word: "{node}" if word[0] == finding.node else word[0],
        finding.repair,
    )


def _repair(first: Finding, nodes: list[str]) -> str:
    """Return the first finding's repair, rewritten for all of the given nodes."""
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
        if named["file"] == "reboot":  # without --limit, it reboots every node that needs it
            return named["deploy"]
        return f"lockstep repair {named['inventory']} --rule {first.rule} {limit}"

    return re.sub(NODE_IN_REPAIR.format(re.escape(first.node)), of_all, first.repair)
