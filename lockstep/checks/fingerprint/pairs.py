"""Compares the fingerprints of two records: of two nodes, or of one node at two times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from lockstep.checks.difference import Comparison, Difference
from lockstep.checks.fingerprint import texts
from lockstep.checks.fingerprint.findings import BRANCHES, READING, taken_of
from lockstep.checks.fingerprint.objects import Branches, asked, differences, shown, unanswered
from lockstep.checks.fingerprint.places import DIGITS, RUNNING, Place, Taken, differing
from lockstep.probe.record import Record
from lockstep.report import alike, count

LEFT, RIGHT = "left", "right"


def question(left: Record, right: Record) -> tuple[tuple[str, str], ...]:
    """Return what to ask both nodes, to learn which objects differ (``Request.asked``)."""
    wanted = asked(_places(left, right)).values()
    return tuple(dict.fromkeys(place for places in wanted for place in places))


def add(found: Comparison, left: Record, right: Record) -> None:
    """Add the differences between the fingerprints of two records.

    A record shows objects only if its node was asked for them (``question``). Otherwise the domain
    is named, with the number of its parts that differ. Identities are replaced on both sides.
    """
    both = taken_of(left), taken_of(right)
    if any(one is None for one in both):
        sides = [name for name, one in zip((LEFT, RIGHT), both, strict=True) if one is None]
        found.without_fingerprint += sides if len(sides) == 1 else []
        return
    places = _places(left, right)
    shows = {LEFT: _branches(left), RIGHT: _branches(right)}
    found.differences += _objects(places, shows)
    for domain, same in alike(unanswered(places, shows), lambda one: shown(one.domain)).items():
        found.differences.append(_unknown(domain, same, *cast(tuple[Taken, Taken], both)))


def _places(left: Record, right: Record) -> list[Place]:
    both = {LEFT: taken_of(left), RIGHT: taken_of(right)}
    taken = {side: one for side, one in both.items() if one is not None}
    found = differing(taken) if len(taken) == len(both) else ()
    # What runs otherwise than it is configured has a place also if it does so on both sides.
    return [place for place in found if len(place.sides) > 1 or len(place.sides[0]) == 1]


def _branches(record: Record) -> Branches:
    value = record.get(BRANCHES)
    return cast(Branches, value) if isinstance(value, dict) else {}


def _objects(places: Iterable[Place], shows: Mapping[str, Branches]) -> Iterator[Difference]:
    found = {
        (one.domain, one.name): {node: side.fields for side in one.sides for node in side.nodes}
        for one in differences(places, shows)
    }
    # What runs otherwise than it is configured may do so on both sides, and is shown by each.
    for side, branches in shows.items():
        for objects in branches.get(RUNNING, {}).values():
            for name, branch in objects.items():
                fields = {**branch[0], **branch[1]}
                found.setdefault((RUNNING, name), {LEFT: None, RIGHT: None})[side] = fields
    for (domain, name), sides in found.items():
        left, right = sides.get(LEFT), sides.get(RIGHT)
        if left != right:
            lines = texts.detail(left, right, sep="\n").splitlines()
            yield Difference(
                f"{READING}.{shown(domain)}",
                name,
                _text(texts.found(left, right), lines, "+"),
                _text(texts.found(right, left), lines, "-"),
            )


def _text(first: str, lines: Iterable[str], sign: str) -> str:
    own = [f"+ {line[1:]}" for line in lines if line.startswith(sign)]
    return "\n".join([first, *own])


def _unknown(domain: str, places: list[Place], left: Taken, right: Taken) -> Difference:
    parts = max(len(one.sums.get(domain, "")) for one in (left, right)) // DIGITS
    names = [place.name for place in places if not place.name.startswith("#")]
    number = len(places) - len(names)
    differ = [f"{number} of {count(parts, 'part')}"] if number else []
    return Difference(
        f"{READING}.{domain}",
        "",
        count(left.count.get(domain, 0), "object"),
        f"{count(right.count.get(domain, 0), 'object')}; other hashes: "
        + ", ".join([*differ, *sorted(set(names))]),
    )
