"""Findings as one rule makes them, before equal ones and consequences are folded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from lockstep.checks.compare import Split, Vote
from lockstep.checks.context import View
from lockstep.checks.repair import DEPLOY
from lockstep.checks.rule import Kind, Rule, as_text
from lockstep.plan import owners
from lockstep.report import Finding, Reference, Status, fold

NO_GROWTH = "no growth"
"""Tag of a finding that a node's counters cannot be compared with an earlier record."""


@dataclass(frozen=True)
class RawFinding:
    """A finding of one rule, with the set of its nodes."""

    finding: Finding
    nodes: frozenset[str]
    rule: Rule
    tags: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    """The devices, where one finding was made of several."""
    sides: tuple[frozenset[str], ...] = ()
    """Where it is open which value is right: the nodes with each value. A cause on all nodes of
    one side explains the difference."""

    @property
    def covers(self) -> frozenset[str]:
        """The devices of the finding, one by one."""
        return self.devices or frozenset({self.finding.device})


def differs(
    rule: Rule, view: View, device: str, value: JsonValue, wanted: JsonValue, reference: str
) -> RawFinding:
    """Return the finding that a device differs from a reference."""
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
    """Return the finding of a difference with given texts."""
    found, expected = texts
    repair = rule.repair
    pending = repair.pending is not None and repair.pending.when(view, device)
    by_peers = reference.startswith(Reference.PEERS.value)
    template = (repair.peers if by_peers else None) or repair.text
    if pending and repair.pending is not None:
        template = repair.pending.repair
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
    tags = frozenset[str]() if rule.tags is None else rule.tags(view, device)
    return RawFinding(finding, frozenset({view.name}), rule, tags)


def unknown(
    rule: Rule, view: View, device: str, found: str, expected: str = "a reading"
) -> RawFinding:
    """Return the finding that something was not read, or cannot be compared."""
    finding = Finding(
        rule=rule.id,
        node=view.name,
        device=device,
        field=rule.reading,
        found=found,
        expected=expected,
        reference=Reference.SPEC.value,
        repair=(
            f"find out why on {view.plan.name}, then read it again: lockstep check "
            f"{_inventory(view)} --limit {view.plan.name} --rule {rule.id}"
        ),
        severity=rule.severity.unread.value,
        status=Status.UNKNOWN.value,
    )
    return RawFinding(finding, frozenset({view.name}), rule)


def undecided(
    rule: Rule, device: str, split: Split, group: str, views: Mapping[str, View]
) -> RawFinding:
    """Return the finding that peers differ and none of them is in a clear majority."""
    nodes = frozenset(one.node for side in split.sides for one in side)
    owned: dict[str, int] = {}
    for side in split.sides:
        for one in side:
            owned[one.node] = owned.get(one.node, 0) + 1

    def holders(side: tuple[Vote, ...]) -> str:
        names: dict[str, list[str]] = {}
        for one in side:
            names.setdefault(one.node, []).append(one.device)
        whole = [name for name, devices in names.items() if len(devices) == owned[name]]
        parts = [fold(whole)] if whole else []
        parts += [f"{name} {fold(d)}" for name, d in names.items() if len(d) < owned[name]]
        return ", ".join(parts)

    sides = "; ".join(f"{rule.text.show(side[0].value)} on {holders(side)}" for side in split.sides)
    first = views[split.sides[0][0].node]
    template = rule.repair.peers or "decide which value is right, then make the others equal to it"
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
    """Return the finding that several devices have a value that must be unique."""
    nodes = frozenset(one.node for one in same)
    where = ", ".join(f"{one.node} {one.device}".strip() for one in same)
    first = views[same[0].node]
    finding = Finding(
        rule=rule.id,
        node=fold(nodes),
        device="",
        field=rule.reading,
        found=f"{rule.text.show(same[0].value)} on {where}",
        expected="a value used once",
        reference=Reference.PEERS.value,
        repair=_repair(rule, first, "", fold(nodes), rule.repair.text, ""),
        severity=rule.severity_on(first, "").value,
    )
    return RawFinding(finding, nodes, rule)


def _roles(rule: Rule, view: View, device: str) -> tuple[str, ...]:
    """Return the roles that set an item of a node, in deploy order."""
    repair = rule.repair
    named = (repair.owner,) if repair.roles is None else repair.roles(view, device)
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
    return template.format(
        inventory=_inventory(view),
        node=node,
        role=view.plan.role.value,
        roles=",".join(roles or _roles(rule, view, device)),
        device=device,
        expected=expected,
        value=as_text(value),
        address=view.plan.address,
    )


def _inventory(view: View) -> str:
    return view.plan.cluster.inventory or "INVENTORY"
