"""The rules of a cluster: Lockstep's rules with the site's changes, and the site's own rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from lockstep.checks.catalogue import all_rules
from lockstep.checks.compare import is_number
from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import (
    UNREAD,
    Bound,
    Cause,
    Expected,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Severities,
    by_hand,
)
from lockstep.checks.rules._gpu import UNREAD_WITH_COUNT, supported
from lockstep.node.check.judge import Judgement
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import Unread, item
from lockstep.report import Severity, alike
from lockstep.spec import Cluster
from lockstep.spec.checks import EACH, Override, SiteRule

LOCAL = {"health": Local.HEALTH, "jobs": Local.JOBS}


def rules_of(spec: Cluster) -> tuple[Rule, ...]:
    """Return every rule of a cluster, sorted by id."""
    changes = alike(spec.checks.overrides, lambda one: one.rule)
    shipped = [
        replace(rule, changes=tuple(changes[rule.id])) if rule.id in changes else rule
        for rule in all_rules()
    ]
    return tuple(sorted([*shipped, *map(_rule, spec.checks.rules)], key=lambda rule: rule.id))


def changed(rule: Rule) -> str:
    """Return the site's changes to a rule as text, or "" if there are none."""
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
    judgement = Judgement(
        (wanted.reading,),
        path=wanted.path,
        device=_device(wanted),
        expected=wanted.expected,
        bound=wanted.bound or "",
    )
    return Rule(
        id=wanted.id,
        claim=wanted.title,
        source=wanted.source,
        reading=wanted.reading,
        # A field that the GPU model does not support is not the node's fault.
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
        applies=lambda view: not wanted.classes or view.plan.hardware.name in wanted.classes,
        on_node=OnNode(LOCAL[wanted.local], lambda view: [judgement]) if wanted.local else None,
        explained_by=tuple(_unread_with(wanted.reading)),
    )


def _unread_with(reading: str) -> Iterable[Cause]:
    """Yield the causes of an unread reading: findings of Lockstep's rules about that reading."""
    yield from (Cause(rule.id, of=UNREAD) for rule in all_rules() if rule.reading == reading)
    yield from UNREAD_WITH_COUNT if reading.startswith("gpu.") else ()


def _look(wanted: SiteRule, view: View) -> Items:
    items = (
        _at(wanted.path, view.read(wanted.reading), _device(wanted))
        if wanted.path
        else view.items(wanted.reading)
    )
    if wanted.kind not in ("absolute", "within"):
        return items
    return {device: _number(value) for device, value in items.items()}


def _at(path: Sequence[str], value: Value, device: str) -> Items:
    """Return the values at the end of a path, by device."""
    if isinstance(value, Unread) or not path:
        return {device: value}
    key, *rest = path
    if not isinstance(value, dict):
        return {device: Unread(unread=f"{key} not found: {value!r:.60} is not a map")}
    if key == EACH:
        return {
            place: found
            for name, inner in value.items()
            for place, found in _at(rest, item(inner), name).items()
        }
    missing = Unread(unread=f"the record has no {key}")
    return _at(rest, item(value[key]) if key in value else missing, device)


def _device(wanted: SiteRule) -> str:
    """Return the name that findings use for the single value at a path."""
    return "" if EACH in wanted.path else " ".join(wanted.path)


def _number(value: Value) -> Value:
    if isinstance(value, Unread) or is_number(value) or value == NOT_SUPPORTED:
        return value
    return Unread(unread=f"not a number: {value!r:.60}")
