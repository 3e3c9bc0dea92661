"""Which side of a difference is right, and by what.

The order: what runs follows what is configured; a clear majority (two thirds of at least three
nodes); the package that ships the object; the node's own past; an object that no package owns and
only one side has; nobody. The description comes before all of them: a rule compares with it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockstep.checks.fingerprint.objects import Difference, Side
from lockstep.checks.fingerprint.places import DIGITS, RUNNING, Place, Taken, differing

ENOUGH = 3
"""Nodes that a majority needs: of two nodes that differ, either can be wrong."""
SHIPPED = "shipped"
"""Field of a file that a package ships: "yes" if it is as the package ships it."""
PACKAGE, NO_PACKAGE = "package", "none"
PROGRAM = "program"
ADDED = frozenset(
    {
        *("file", "unit", "timer", "process", "listener", "cgroup", "engine", "user", "group"),
        *(PROGRAM, "netns", "tc", "xfrm", "nexthop", "neighbour"),
    }
)
"""Domains in which an object on one side only was rather added than removed. A missing route, mount
or device is rather a fault."""


class By(enum.Enum):
    """The source of the right value."""

    CONFIGURED = "configured"
    MAJORITY = "peers"
    PACKAGE = "package"
    PAST = "earlier record"
    UNOWNED = "no package owns it"
    NOBODY = "nobody"


@dataclass(frozen=True)
class Verdict:
    """The right side of a difference."""

    right: Side | None
    """None if nobody knows."""
    by: By


def verdict(
    difference: Difference, now: Mapping[str, Taken], past: Sequence[Mapping[str, Taken]]
) -> Verdict:
    """Return which side is right.

    Args:
        difference: an object that differs.
        now: node -> its fingerprint.
        past: the same of earlier checks, the newest first.
    """
    sides = difference.sides
    if difference.domain == RUNNING:
        return Verdict(None, By.CONFIGURED)
    largest = sides[0]
    if difference.nodes >= ENOUGH and 3 * len(largest.nodes) >= 2 * difference.nodes:
        return Verdict(largest, By.MAJORITY)
    shipped = [side for side in sides if _is_shipped(difference, side)]
    if len(shipped) == 1:
        return Verdict(shipped[0], By.PACKAGE)
    before = _as_before(difference, now, past)
    if before is not None:
        return Verdict(before, By.PAST)
    absent = [side for side in sides if side.fields is None]
    owned = any((side.fields or {}).get(PACKAGE, NO_PACKAGE) != NO_PACKAGE for side in sides)
    if difference.domain in ADDED and absent and not owned:
        return Verdict(absent[0], By.UNOWNED)
    return Verdict(None, By.NOBODY)


def _is_shipped(difference: Difference, side: Side) -> bool:
    """Return whether a file is as its package ships it.

    Below /usr, a file that is as shipped is no object. One with unusual rights may be as shipped.
    """
    if difference.domain != PROGRAM:
        return (side.fields or {}).get(SHIPPED) == "yes"
    others = [other.fields for other in difference.sides if other.fields is not None]
    return side.fields is None and all(
        SHIPPED in other or other.get("type") == "absent" for other in others
    )


def _as_before(
    difference: Difference, now: Mapping[str, Taken], past: Sequence[Mapping[str, Taken]]
) -> Side | None:
    """Return the side that is as it was when all sides were last equal."""
    place = difference.place
    for check in past:
        known = {
            number: node
            for number, side in enumerate(difference.sides)
            for node in side.nodes[:1]
            if node in check
        }
        if len(known) < len(difference.sides):
            continue
        then = {node: check[node] for node in known.values()}
        if any(
            (other.domain, other.name) == (place.domain, place.name) for other in differing(then)
        ):
            continue
        same = [
            difference.sides[number]
            for number, node in known.items()
            if _hashes(place, now[node]) == _hashes(place, check[node])
        ]
        return same[0] if len(same) == 1 else None
    return None


def _hashes(place: Place, taken: Taken) -> tuple[object, ...]:
    touched = taken.touched.get(place.domain, {})
    if not place.name.startswith("#"):
        return (list(touched.get(place.name, ())),)
    bucket = place.name[1:]
    at = int(bucket) * DIGITS
    apart = {name: list(hashes) for name, hashes in touched.items() if str(hashes[2]) == bucket}
    return (taken.sums.get(place.domain, "")[at : at + DIGITS], apart)
