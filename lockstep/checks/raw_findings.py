"""Findings of single rules, before equal findings and consequences are folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from lockstep.checks.compare import Split, Vote
from lockstep.checks.context import View
from lockstep.checks.rule import DEPLOY, Kind, Rule, as_text
from lockstep.plan import owners
from lockstep.report import Finding, Reference, Status, alike, fold

NO_GROWTH = "no growth"
"""The tag of findings about counters that cannot be compared with an earlier record."""


@dataclass(frozen=True)
class RawFinding:
    """A finding of one rule, with the nodes to which it applies."""

    finding: Finding
    nodes: frozenset[str]
    rule: Rule
    tags: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    """The devices, if findings on several devices were joined."""
    sides: tuple[frozenset[str], ...] = ()
    """One set of nodes for each value, if no value has a majority among the peers. A cause on all
    nodes of one set explains the difference."""

    @property
    def covers(self) -> frozenset[str]:
        """All devices of the finding."""
        return self.devices or frozenset({self.finding.device})


def differs(
    rule: Rule, view: View, device: str, value: JsonValue, wanted: JsonValue, reference: str
) -> RawFinding:
    """Return a finding for a device whose value differs from the reference."""
    text = rule.text
    if text.words is not None:
        found, expected = text.words(value, wanted)
    else:
        found, expected = text.show(value), text.show(wanted)
        if rule.kind in (Kind.ABSOLUTE, Kind.WITHIN):
            expected = f"{rule.expected.bound.value} {expected}"
    return difference(rule, view, device, (found, expected), reference, wanted)


def difference(
    rule: Rule,
    view: View,
    device: str,
    texts: tuple[str, str],
    reference: str,
    wanted: JsonValue = "",
) -> RawFinding:
    """Return a finding for a difference; ``texts`` contains the found and the expected value."""
    found, expected = texts
    repair = rule.repair
    pending = repair.pending
    if pending is not None and not pending.when(view, device):
        pending = None
    by_peers = reference.startswith((Reference.PEERS.value, Reference.EARLIER.value))
    template = pending.repair if pending else (by_peers and repair.peers) or repair.text
    roles = _roles(rule, view, device) if template.startswith(DEPLOY) else ()
    if template.startswith(DEPLOY) and not roles:
        template = repair.no_role
    finding = Finding(
        rule=rule.id,
        node=view.name,
        device=device,
        field=rule.reading,
        found=found,
        expected=expected,
        reference=reference,
        repair=_repair(rule, view, device, view.plan.name, template, expected, wanted, roles),
        roles=roles,
        severity=rule.severity_on(view, device).value,
        status=(Status.PENDING_REBOOT if pending else Status.DIFFERS).value,
        detail="" if rule.text.detail is None else rule.text.detail(view, device),
    )
    tags = frozenset() if rule.tags is None else rule.tags(view, device)
    return RawFinding(finding, frozenset({view.name}), rule, tags)


def unknown(
    rule: Rule,
    view: View,
    device: str,
    found: str,
    expected: str = "a reading",
    tags: frozenset[str] = frozenset(),
) -> RawFinding:
    """Return a finding for a value that could not be read or compared."""
    finding = Finding(
        rule=rule.id,
        node=view.name,
        device=device,
        field=rule.reading,
        found=found,
        expected=expected,
        reference=Reference.SPEC.value,
        repair=(
            f"find the cause on {view.plan.name}, then check again: "
            f"lockstep check {view.plan.cluster.inventory or 'INVENTORY'} "
            f"--limit {view.plan.name} --rule {rule.id}"
        ),
        severity=rule.severity.unread.value,
        status=Status.UNKNOWN.value,
    )
    return RawFinding(finding, frozenset({view.name}), rule, tags)


def undecided(
    rule: Rule, device: str, split: Split, group: str, views: Mapping[str, View]
) -> RawFinding:
    """Return a finding for peers whose values differ, if no value has a majority."""
    owned = Counter(one.node for side in split.sides for one in side)
    nodes = frozenset(owned)

    def holders(side: tuple[Vote, ...]) -> str:
        names = alike(side, lambda one: one.node)
        whole = [name for name, votes in names.items() if len(votes) == owned[name]]
        parts = [
            f"{name} {fold(one.device for one in votes)}"
            for name, votes in names.items()
            if name not in whole
        ]
        return ", ".join([fold(whole), *parts] if whole else parts)

    sides = "; ".join(f"{rule.text.show(side[0].value)} on {holders(side)}" for side in split.sides)
    first = views[split.sides[0][0].node]
    template = rule.repair.peers or "decide which value is right, and set it on the other nodes"
    finding = Finding(
        rule=rule.id,
        node=fold(nodes),
        device=device,
        field=rule.reading,
        found=sides,
        expected=f"one value on all nodes {group}",
        reference=Reference.PEERS.value,
        repair=_repair(rule, first, device, fold(nodes), template, "the right value"),
        severity=rule.severity_on(first, device).value,
        status=Status.UNDECIDED.value,
    )
    parties = tuple(frozenset(one.node for one in side) for side in split.sides)
    return RawFinding(finding, nodes, rule, sides=parties)


def repeated(rule: Rule, same: tuple[Vote, ...], views: Mapping[str, View]) -> RawFinding:
    """Return a finding for several devices that share a value although it must be unique."""
    nodes = frozenset(one.node for one in same)
    where = ", ".join(f"{one.node} {one.device}".strip() for one in same)
    first = views[same[0].node]
    finding = Finding(
        rule=rule.id,
        node=fold(nodes),
        device="",
        field=rule.reading,
        found=f"{rule.text.show(same[0].value)} on {where}",
        expected="a unique value",
        reference=Reference.PEERS.value,
        repair=_repair(rule, first, "", fold(nodes), rule.repair.text, ""),
        severity=rule.severity_on(first, "").value,
    )
    return RawFinding(finding, nodes, rule)


def _roles(rule: Rule, view: View, device: str) -> tuple[str, ...]:
    """Return the roles that set an item on a node, in the order of deployment."""
    roles = rule.repair.roles
    named = (rule.repair.owner,) if roles is None else roles(view, device)
    return owners.together(view.plan, named)


def _repair(
    rule: Rule,
    view: View,
    device: str,
    node: str,
    template: str,
    expected: str,
    value: JsonValue = "",
    roles: tuple[str, ...] = (),
) -> str:
    text = template.format(
        inventory=view.plan.cluster.inventory or "INVENTORY",
        node=node,
        role=view.plan.role.value,
        roles=",".join(roles or _roles(rule, view, device)),
        device=device,
        expected=expected,
        value=as_text(value),
        address=view.plan.address,
    )
    return view.plan.cluster.runnable(text)
