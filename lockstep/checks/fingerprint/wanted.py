"""Differences of objects without what a site accepts.

A node that is accepted has no vote: its value is right there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lockstep.checks.accepted import WHOLE, hash_of
from lockstep.checks.accepting import Accepting, context_rows
from lockstep.checks.context import View
from lockstep.checks.fingerprint.objects import Difference, Fields, Side
from lockstep.checks.fingerprint.places import RUNNING
from lockstep.report import Part


def part(rule: str, difference: Difference, side: Side, nodes: tuple[str, ...]) -> Part:
    """Return one side of a difference, as a site can accept it on some of its nodes."""
    fields = sorted({name for other in difference.sides for name in other.fields or ()})
    values = {name: values_of(side, name) for name in (WHOLE, *fields)}
    others = [other for other in difference.sides if other is not side]
    differ = {name for other in others for name in fields if values_of(other, name) != values[name]}
    kept = {name: values[name] for name in (WHOLE, *fields) if name in differ or not name}
    return Part(rule, difference.name, nodes, kept)


def values_of(side: Side, field: str = WHOLE) -> tuple[str, ...]:
    """Return the hashes of an object or field, as it is and with identities replaced."""
    if side.fields is None:
        return (hash_of(None),)
    forms = (*side.forms, side.fields)
    hashes = (hash_of(form if field == WHOLE else form.get(field)) for form in forms)
    return tuple(dict.fromkeys(hashes))


def remaining(
    difference: Difference, rule: str, views: Mapping[str, View], accepting: Accepting
) -> Difference | None:
    """Return a difference without the nodes and fields that are accepted; None if none is left."""
    if accepting.is_empty:
        return difference
    gone: set[str] = set()
    sides: list[tuple[tuple[str, ...], Side]] = []
    for side in difference.sides:
        nodes = []
        for node in side.nodes:
            rows = context_rows(views[node], rule, difference.name, whole=True)
            row = next((row for row in rows if row.accepts(values_of(side))), None)
            if row is None:
                nodes.append(node)
            else:
                accepting.note(row, views[node])
                gone.add(node)
        sides.append((tuple(nodes), side))
    left = [replace(side, nodes=nodes) for nodes, side in sides if nodes]
    left = _without_fields(left, rule, difference.name, views, accepting)
    if len(left) < (1 if difference.domain == RUNNING else 2):
        return None
    groups = (tuple(name for name in names if name not in gone) for names in difference.place.sides)
    place = replace(difference.place, sides=tuple(filter(None, groups)))
    return replace(difference, sides=_sorted(left), place=place)


def _without_fields(
    sides: list[Side], rule: str, name: str, views: Mapping[str, View], accepting: Accepting
) -> list[Side]:
    """Give nodes whose fields are accepted those of the other nodes, and join equal sides."""
    accepted = [
        context_rows(views[node], rule, name, whole=False) for side in sides for node in side.nodes
    ]
    if not any(accepted):
        return sides
    joined: list[Side] = []
    for side in sides:
        others = sorted((one for one in sides if one is not side), key=lambda one: -len(one.nodes))
        usual = next((one.fields for one in others if one.fields is not None), None)
        for node in side.nodes:
            fields = side.fields
            for row in context_rows(views[node], rule, name, whole=False):
                if fields is None or usual is None or not row.accepts(values_of(side, row.field)):
                    continue
                if fields.get(row.field) != usual.get(row.field):
                    fields = _with(fields, row.field, usual)
                    accepting.note(row, views[node])
            forms = side.forms if fields == side.fields else ()
            _join(joined, Side((node,), fields, forms))
    return joined


def _with(fields: Fields, name: str, other: Fields) -> Fields:
    kept = {field: value for field, value in fields.items() if field != name}
    return {**kept, name: other[name]} if name in other else kept


def _join(joined: list[Side], side: Side) -> None:
    for number, other in enumerate(joined):
        if other.fields == side.fields:
            joined[number] = replace(other, nodes=(*other.nodes, *side.nodes))
            return
    joined.append(side)


def _sorted(sides: list[Side]) -> tuple[Side, ...]:
    return tuple(sorted(sides, key=lambda side: (-len(side.nodes), side.nodes)))
