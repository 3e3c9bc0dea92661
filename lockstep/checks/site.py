"""The rules of a cluster: Lockstep's with the changes of its description, and its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from lockstep.checks.catalogue import all_rules
from lockstep.checks.cause import UNREAD, Cause
from lockstep.checks.compare import is_number
from lockstep.checks.context import Items, Value, View
from lockstep.checks.repair import by_hand
from lockstep.checks.rule import (
    Bound,
    Expected,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Severities,
)
from lockstep.checks.rules._gpu import UNREAD_WITH_COUNT, supported
from lockstep.node.check.judge import Judgement
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import Unread, item
from lockstep.report import Severity
from lockstep.spec import Cluster
from lockstep.spec.checks import EACH, Override, SiteRule

PREFIX = "site."
LOCAL = {"health": Local.HEALTH, "jobs": Local.JOBS}


def rules_of(spec: Cluster) -> tuple[Rule, ...]:
    """Return every rule of a cluster, by id."""
    changes: dict[str, tuple[Override, ...]] = {}
    for one in spec.checks.overrides:
        changes[one.rule] = (*changes.get(one.rule, ()), one)
    shipped = [
        replace(rule, changes=changes[rule.id]) if rule.id in changes else rule
        for rule in all_rules()
    ]
    return tuple(sorted([*shipped, *map(_rule, spec.checks.rules)], key=lambda rule: rule.id))


def changed(rule: Rule) -> str:
    """Return the site's changes of a rule as text; "" for none."""
    return "; ".join(map(_change, rule.changes))


def _change(one: Override) -> str:
    parts = [f"switched off: {one.off}"] if one.off else []
    parts += [f"severity {one.severity}"] if one.severity else []
    parts += [f"tolerance {one.tolerance:g}"] if one.tolerance is not None else []
    return ", ".join(parts) + (f" (class {', '.join(one.classes)})" if one.classes else "")


def _rule(wanted: SiteRule) -> Rule:
    kind = Kind(wanted.kind)
    declared = wanted.expected is not None
    compared = not declared and kind not in (Kind.UNIQUE, Kind.GROWTH)
    return Rule(
        id=wanted.id,
        claim=wanted.title,
        source=wanted.source,
        reading=wanted.reading,
        # A field that a GPU model does not have is no fault of the node.
        look=Look(partial(_look, wanted), pick=supported),
        kind=kind,
        expected=Expected(
            common=(lambda view: wanted.expected) if declared else None,
            bound=Bound(wanted.bound) if wanted.bound else Bound.AT_LEAST,
        ),
        peers=Peers(wanted.peers) if compared else None,
        tolerance=wanted.tolerance or 0.0,
        severity=Severities(Severity(wanted.severity)),
        repair=by_hand(wanted.repair, peers=wanted.repair),
        applies=lambda view: _is_for(wanted, view),
        on_node=OnNode(LOCAL[wanted.local], partial(_on_node, wanted)) if wanted.local else None,
        explained_by=tuple(_unread_with(wanted.reading)),
    )


def _is_for(wanted: SiteRule, view: View) -> bool:
    return not wanted.classes or view.plan.hardware.name in wanted.classes


def _unread_with(reading: str) -> Iterable[Cause]:
    """Yield causes: Lockstep's own rules of the same reading, which explain why it is unread."""
    yield from (Cause(rule.id, of=UNREAD) for rule in all_rules() if rule.reading == reading)
    if reading.startswith("gpu."):
        yield from UNREAD_WITH_COUNT


def _look(wanted: SiteRule, view: View) -> Items:
    if wanted.path:
        items = _at(wanted.path, view.read(wanted.reading), _device(wanted))
    else:
        items = view.items(wanted.reading)
    if wanted.kind not in ("absolute", "within"):
        return items
    return {device: _number(value) for device, value in items.items()}


def _at(path: tuple[str, ...], value: Value, device: str) -> Items:
    """Return what lies at the end of a path, by device."""
    if isinstance(value, Unread) or not path:
        return {device: value}
    key, rest = path[0], path[1:]
    if not isinstance(value, dict):
        return {device: Unread(unread=f"not a map: {value!r:.60}")}
    if key == EACH:
        found: Items = {}
        for name, inner in value.items():
            found |= _at(rest, item(inner), name)
        return found
    missing = Unread(unread=f"no {key} in the record")
    return _at(rest, item(value[key]) if key in value else missing, device)


def _device(wanted: SiteRule) -> str:
    """Return what findings call the one value at a path."""
    return "" if EACH in wanted.path else " ".join(wanted.path)


def _number(value: Value) -> Value:
    if isinstance(value, Unread) or is_number(value) or value == NOT_SUPPORTED:
        return value
    return Unread(unread=f"not a number: {value!r:.60}")


def _on_node(wanted: SiteRule, view: View) -> Iterable[Judgement]:
    yield Judgement(
        (wanted.reading,),
        path=wanted.path,
        device=_device(wanted),
        expected=wanted.expected,
        bound=wanted.bound or "",
    )
