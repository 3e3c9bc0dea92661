"""Rules x records x plans -> Report. Pure: what it is given is all it knows.

For each item the first reference that speaks decides: the spec, else the device itself, else the
peers. An item that was not read is a finding of its own and has no vote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from pydantic import JsonValue

from lockstep.checks import causes, classes, compare, growth
from lockstep.checks.causes import Draft
from lockstep.checks.compare import Majority, Split, Vote
from lockstep.checks.context import Context, Items, View
from lockstep.checks.growth import Tally, Unsure
from lockstep.checks.rule import DEPLOY, Kind, Rule, Skip, anything
from lockstep.checks.rules import node_reachable
from lockstep.plan import owners
from lockstep.probe.record import Record, Unreachable, Unread
from lockstep.report import Finding, Reference, Report, Status, fold
from lockstep.spec import Service

MISSING = Unread(unread="not in the record")
REACHABLE = node_reachable.RULE.id
"""The rule whose finding ends all others for its node; judged whatever rules are chosen."""


def check(rules: Sequence[Rule], context: Context, limit: Iterable[str] | None = None) -> Report:
    """Return what every rule finds; with ``limit``, what concerns these nodes.

    Peers outside the limit are compared with all the same. A cause outside of it is not shown,
    so nothing is folded into it: the limit comes first.
    """
    return check_together(rules, [context], limit)


def check_together(
    rules: Sequence[Rule], contexts: Sequence[Context], limit: Iterable[str] | None = None
) -> Report:
    """Return what every rule finds on the nodes of several clusters, peers over all of them."""
    judged = {rule.id: rule for rule in (*rules, node_reachable.RULE)}.values()
    nodes = [context.labelled(name) for context in contexts for name in context.plan.nodes]
    wanted = frozenset(nodes if limit is None else limit)
    tally = Tally()
    drafts = [
        draft for rule in judged for draft in _judge(rule, contexts, tally) if draft.nodes & wanted
    ]
    kept = causes.explain(causes.folded(drafts), _controllers(contexts))
    report = Report(
        nodes=tuple(name for name in nodes if name in wanted),
        rules=tuple(rule.id for rule in rules if not rule.is_off),
        notes=tuple(tally.notes(wanted)),
        off=tuple(off for rule in rules for off in rule.switched_off),
    )
    report.add(draft.finding for draft in kept)
    return report


def _controllers(contexts: Iterable[Context]) -> dict[str, str]:
    """Return node -> the node that runs its slurmctld, where there is one."""
    return {
        context.labelled(name): context.labelled(controller.name)
        for context in contexts
        if (controller := context.plan.running(Service.SLURM_CONTROLLER)) is not None
        for name in context.plan.nodes
    }


# --- one rule -----------------------------------------------------------------------------------


def _judge(rule: Rule, contexts: Sequence[Context], tally: Tally) -> Iterator[Draft]:
    if rule.id == REACHABLE:
        for context in contexts:
            yield from _unreachable(rule, context)
        return
    seen: dict[str, dict[str, JsonValue]] = {}
    incomplete: set[str] = set()
    everyone = [view for context in contexts for view in context.views.values()]
    views = {view.name: view for view in everyone if rule.judges(view)}
    for name, view in views.items():
        items = _picked(rule, view)
        unread = {device: one for device, one in items.items() if isinstance(one, Unread)}
        for device, value in unread.items():
            yield _unknown(rule, view, device, f"not read: {value.unread}")
            incomplete.add(name)
        if len(items) > len(unread):
            # A view of the same object where all of it was read: equal nodes share what they say.
            seen[name] = cast(
                dict[str, JsonValue],
                {device: items[device] for device in items.keys() - unread.keys()}
                if unread
                else items,
            )
    if rule.kind is Kind.UNIQUE:
        yield from _duplicates(rule, seen, views)
    elif rule.kind is Kind.GROWTH:
        yield from _growth(rule, seen, views, tally)
    elif rule.kind is Kind.MULTISET:
        sets: dict[str, dict[str, JsonValue]] = {
            # A set that lacks what could not be read is no set to compare.
            name: {"": compare.multiset(items)}
            for name, items in seen.items()
            if name not in incomplete
        }
        yield from _differing(rule, sets, views)
    else:
        yield from _differing(rule, seen, views)


def _picked(rule: Rule, view: View) -> Items:
    """Return the part of each item that matters to a rule; what was not read stays unread."""
    items = _items(rule, view)
    if rule.pick is None:
        return items
    found: Items = {}
    for device, value in items.items():
        picked = value if isinstance(value, Unread) else rule.pick(value)
        if not isinstance(picked, Skip):
            found[device] = picked
    return found


def _items(rule: Rule, view: View) -> Items:
    """Return what a rule has to judge on a node, its missing devices as unread."""
    items = rule.look(view) if rule.look is not None else view.items(rule.reading)
    whole = items.get("")
    if isinstance(whole, Unread) and len(items) == 1:
        return items
    if rule.expected_each is not None:
        return {device: items.get(device, MISSING) for device in rule.expected_each(view)}
    if rule.devices is not None:
        listed = view.record.items(rule.devices)
        if not isinstance(listed, Unread) and not listed.keys() <= items.keys():
            return {device: items.get(device, MISSING) for device in sorted({*items, *listed})}
    return items


def _differing(
    rule: Rule, seen: dict[str, dict[str, JsonValue]], views: dict[str, View]
) -> Iterator[Draft]:
    undeclared: dict[str, dict[str, JsonValue]] = {}
    for name, items in seen.items():
        view = views[name]
        declared = rule.expected_each or rule.expected_some
        each = {} if declared is None else declared(view)
        common = None if rule.expected is None else rule.expected(view)
        defaults = {} if rule.device is None else view.items(rule.device)
        declared_each = {device: one for device, one in each.items() if one is not None}
        if not declared_each and not defaults and common is None:
            undeclared[name] = items
            continue
        sure = declared_each or (defaults if common is None else dict.fromkeys(items, common))
        # The usual case at a glance: everything is as it should be.
        if rule.kind is not Kind.ABSOLUTE and items == sure and None not in sure.values():
            continue
        for device, value in items.items():
            wanted, reference = each.get(device, common), Reference.SPEC
            if wanted is None:
                default = defaults.get(device)
                if default is None or isinstance(default, Unread):
                    undeclared.setdefault(name, {})[device] = value
                    continue
                wanted, reference = default, Reference.DEVICE
            if not _agrees(rule, value, wanted):
                yield _finding(rule, view, device, value, wanted, reference.value)
    if rule.peers is not None:
        yield from _outvoted(rule, undeclared, views)


def _agrees(rule: Rule, value: JsonValue, wanted: JsonValue) -> bool:
    if rule.kind is Kind.ABSOLUTE:
        return compare.holds(value, wanted, rule.bound)
    return value == wanted


def _outvoted(
    rule: Rule, seen: dict[str, dict[str, JsonValue]], views: dict[str, View]
) -> Iterator[Draft]:
    assert rule.peers is not None
    present = [view for name, view in views.items() if name in seen]
    for group, members in classes.groups(present, rule.peers).items():
        said = {view.name: seen[view.name] for view in members}
        ballots = (
            compare.differing_slots(said)
            if rule.kind is Kind.SLOTS
            else {"": compare.ballot(said)}
            if rule.kind is Kind.WITHIN or not compare.all_alike(said.values())
            else {}
        )
        for ballot, votes in ballots.items():
            verdict = (
                compare.worse(votes, rule.bound, rule.tolerance_on(members[0]))
                if rule.kind is Kind.WITHIN
                else compare.vote(votes)
            )
            if isinstance(verdict, Majority):
                says = classes.agreeing(verdict.nodes, verdict.of, group)
                for one in verdict.others:
                    view = views[one.node]
                    yield _finding(rule, view, one.device, one.value, verdict.value, says)
            elif isinstance(verdict, Split):
                yield _undecided(rule, ballot, verdict, group, views)


def _growth(
    rule: Rule, seen: dict[str, dict[str, JsonValue]], views: dict[str, View], tally: Tally
) -> Iterator[Draft]:
    for name, items in seen.items():
        view = views[name]
        for one in growth.verdicts(rule, view, items, _picked, tally):
            if isinstance(one, Unsure):
                draft = _unknown(rule, view, one.device, one.found, one.expected)
                yield replace(draft, grounds=frozenset({causes.NO_GROWTH}))
            else:
                yield _drafted(rule, view, one.device, (one.found, one.expected), one.says)


def _duplicates(
    rule: Rule, seen: dict[str, dict[str, JsonValue]], views: dict[str, View]
) -> Iterator[Draft]:
    for same in compare.duplicates(compare.ballot(seen)):
        nodes = frozenset(one.node for one in same)
        where = ", ".join(f"{one.node} {one.device}".strip() for one in same)
        finding = Finding(
            rule=rule.id,
            node=fold(nodes),
            device="",
            field=rule.reading,
            found=f"{rule.show(same[0].value)} on {where}",
            expected="a value used once",
            reference=Reference.PEERS.value,
            repair=_repair(rule, views[same[0].node], "", fold(nodes), rule.repair, ""),
            severity=rule.severity_on(views[same[0].node], "").value,
        )
        yield Draft(finding, nodes, rule)


def _unreachable(rule: Rule, context: Context) -> Iterator[Draft]:
    for name, plan in context.plan.nodes.items():
        got = context.reading.get(name, Unreachable("no record of it"))
        if isinstance(got, Record):
            continue
        finding = Finding(
            rule=rule.id,
            node=context.labelled(name),
            device="",
            field=rule.reading,
            found=got.reason,
            expected="a record of the node",
            reference=Reference.SPEC.value,
            repair=rule.repair.format(
                inventory=plan.cluster.inventory or "INVENTORY",
                node=name,
                role=plan.role.value,
                address=plan.address,
            ),
            severity=rule.severity.value,
        )
        yield Draft(finding, frozenset({finding.node}), rule)


# --- findings -----------------------------------------------------------------------------------


def _finding(
    rule: Rule, view: View, device: str, value: JsonValue, wanted: JsonValue, says: str
) -> Draft:
    if rule.words is not None:
        found, expected = rule.words(value, wanted)
    else:
        found, expected = rule.show(value), rule.show(wanted)
        if rule.kind in (Kind.ABSOLUTE, Kind.WITHIN):
            expected = f"{rule.bound.value} {expected}"
    return _drafted(rule, view, device, (found, expected), says, wanted)


def _drafted(
    rule: Rule,
    view: View,
    device: str,
    texts: tuple[str, str],
    says: str,
    wanted: JsonValue = "",
) -> Draft:
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


def _unknown(rule: Rule, view: View, device: str, found: str, expected: str = "a reading") -> Draft:
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


def _undecided(rule: Rule, device: str, split: Split, group: str, views: dict[str, View]) -> Draft:
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
