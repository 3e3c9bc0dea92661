"""What a rule found, as a finding: its texts, its repair, its grounds."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from lockstep.checks.causes import Draft
from lockstep.checks.compare import Split, Vote
from lockstep.checks.context import View
from lockstep.checks.rule import DEPLOY, Kind, Rule, anything
from lockstep.plan import owners
from lockstep.report import Finding, Reference, Status, fold


def differs(
    rule: Rule, view: View, device: str, value: JsonValue, wanted: JsonValue, says: str
) -> Draft:
    """Return that a device is not as a reference has it."""
    if rule.words is not None:
        found, expected = rule.words(value, wanted)
    else:
        found, expected = rule.show(value), rule.show(wanted)
        if rule.kind in (Kind.ABSOLUTE, Kind.WITHIN):
            expected = f"{rule.bound.value} {expected}"
    return drafted(rule, view, device, (found, expected), says, wanted)


def drafted(
    rule: Rule,
    view: View,
    device: str,
    texts: tuple[str, str],
    says: str,
    wanted: JsonValue = "",
) -> Draft:
    """Return a difference in words of its own."""
    found, expected = texts
    pending = rule.pending is not None and rule.pending(view, device)
    by_peers = says.startswith(Reference.PEERS.value)
    template = (rule.repair_peers if by_peers else None) or rule.repair
    if pending:
        template = rule.repair_pending
    roles = _roles(rule, view, device) if template.startswith(DEPLOY) else ()
    if template.startswith(DEPLOY) and not roles:
        template = rule.repair_no_role
    finding = Finding(
        rule=rule.id,
        node=view.name,
        device=device,
        field=rule.reading,
        found=found,
        expected=expected,
        reference=says,
        repair=_repair(rule, view, device, view.plan.name, template, expected, wanted, roles),
        roles=roles,
        severity=rule.severity_on(view, device).value,
        status=(Status.PENDING_REBOOT if pending else Status.DIFFERS).value,
        detail="" if rule.detail is None else rule.detail(view, device),
    )
    grounds = frozenset[str]() if rule.grounds is None else rule.grounds(view, device)
    return Draft(finding, frozenset({view.name}), rule, grounds)


def unknown(rule: Rule, view: View, device: str, found: str, expected: str = "a reading") -> Draft:
    """Return that something was not read, or cannot be told."""
    finding = Finding(
        rule=rule.id,
        node=view.name,
        device=device,
        field=rule.reading,
        found=found,
        expected=expected,
        reference=Reference.SPEC.value,
        repair=(
            f"find out why on {view.plan.name}, then read it anew: "
            f"lockstep check {_inventory(view)} --limit {view.plan.name} --rule {rule.id}"
        ),
        severity=rule.unread.value,
        status=Status.UNKNOWN.value,
    )
    return Draft(finding, frozenset({view.name}), rule)


def undecided(
    rule: Rule, device: str, split: Split, group: str, views: Mapping[str, View]
) -> Draft:
    """Return that peers differ and nobody can be blamed."""
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

    sides = "; ".join(f"{rule.show(side[0].value)} on {holders(side)}" for side in split.sides)
    first = views[split.sides[0][0].node]
    template = rule.repair_peers or "decide which value is right, then make the others equal to it"
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
    return Draft(finding, nodes, rule, sides=parties)


def repeated(rule: Rule, same: tuple[Vote, ...], views: Mapping[str, View]) -> Draft:
    """Return that several hold a value that should be used once."""
    nodes = frozenset(one.node for one in same)
    where = ", ".join(f"{one.node} {one.device}".strip() for one in same)
    first = views[same[0].node]
    finding = Finding(
        rule=rule.id,
        node=fold(nodes),
        device="",
        field=rule.reading,
        found=f"{rule.show(same[0].value)} on {where}",
        expected="a value used once",
        reference=Reference.PEERS.value,
        repair=_repair(rule, first, "", fold(nodes), rule.repair, ""),
        severity=rule.severity_on(first, "").value,
    )
    return Draft(finding, nodes, rule)


def _roles(rule: Rule, view: View, device: str) -> tuple[str, ...]:
    """Return the roles that set an item of a node, in deploy order."""
    named = (rule.owner,) if rule.roles is None else rule.roles(view, device)
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
        value=anything(value),
        address=view.plan.address,
    )


def _inventory(view: View) -> str:
    return view.plan.cluster.inventory or "INVENTORY"
