"""Which side of a difference is right, and by what.

The order: what runs follows what is configured; a clear majority (two thirds of at least three
nodes); the package that ships the object; the node's own past; an object that no package owns and
only one side has; nobody. The description comes before all of them: a rule compares with it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.checks.fingerprint.objects import MADE_BY_KERNEL, Difference, Side
from lockstep.checks.fingerprint.past import Past
from lockstep.checks.fingerprint.places import RUNNING

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
or device is rather a fault, and so is a missing file of a device."""


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


def is_majority(nodes: int, every: int) -> bool:
    """Return whether so many of all nodes decide: two thirds of at least three."""
    return every >= ENOUGH and 3 * nodes >= 2 * every


def verdict(
    difference: Difference, past: Past | None = None, uneven: frozenset[str] = frozenset()
) -> Verdict:
    """Return which side is right.

    Args:
        difference: an object that differs.
        past: the earlier fingerprints; None if they are not known yet.
        uneven: packages that are installed on some nodes only, and do not tell about the others.
    """
    sides = difference.sides
    if difference.domain == RUNNING:
        return Verdict(None, By.CONFIGURED)
    largest = sides[0]
    if is_majority(len(largest.nodes), difference.nodes):
        return Verdict(largest, By.MAJORITY)
    shipped = [side for side in sides if _is_shipped(difference, side)]
    if len(shipped) == 1 and uneven.isdisjoint((s.fields or {}).get(PACKAGE, "") for s in sides):
        return Verdict(shipped[0], By.PACKAGE)
    before = None if past is None else past.right(difference)
    if before is not None:
        return Verdict(before, By.PAST)
    absent = [side for side in sides if side.fields is None]
    owned = any((side.fields or {}).get(PACKAGE, NO_PACKAGE) != NO_PACKAGE for side in sides)
    made = MADE_BY_KERNEL.match(difference.name)
    if difference.domain in ADDED and absent and not owned and not made:
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


def uneven_packages(differences: Iterable[Difference]) -> frozenset[str]:
    """Return the packages that are installed on some of the nodes only."""
    return frozenset(
        difference.name.partition(":")[0]
        for difference in differences
        if difference.domain == PACKAGE and any(side.fields is None for side in difference.sides)
    )


def wants_past(difference: Difference, uneven: frozenset[str]) -> tuple[str, ...]:
    """Return the nodes whose past decides, or says since when they differ."""
    decided = verdict(difference, uneven=uneven)
    if difference.domain == RUNNING:
        return tuple(node for side in difference.sides if side.fields for node in side.nodes)
    if decided.by in (By.NOBODY, By.UNOWNED):
        return tuple(node for side in difference.sides for node in side.nodes)
    return tuple(
        node for side in difference.sides if side is not decided.right for node in side.nodes
    )
