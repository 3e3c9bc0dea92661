"""Which fields of which objects differ, once nodes have been asked for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lockstep.checks.fingerprint.places import RUNNING, Place
from lockstep.node.fingerprint.tree import PROTECTED

SIDES = 8
"""At most so many nodes are asked about one place. If all nodes differ, more would not help."""
PLACES = 300
"""At most so many places are asked about. A node that differs in more is another kind of node."""

MADE_BY_KERNEL = re.compile(r"/(?:dev|proc|sys)(?:/|$)")
"""Files that the kernel, udev(7) or a driver makes for a device (sysfs(5), proc(5)). If only some
nodes have one, the others have rather lost the device; rm(1) would only take it from programs."""

Fields = dict[str, str]
Branches = Mapping[str, Mapping[str, Mapping[str, list[Fields]]]]
"""Domain -> place -> object -> its fields, and those with identities replaced (``tree.Branch``)."""


@dataclass(frozen=True)
class Side:
    """Nodes that have equal fields of an object."""

    nodes: tuple[str, ...]
    fields: Fields | None
    """With identities replaced; None if these nodes do not have the object."""
    forms: tuple[Fields, ...] = ()
    """The fields as they are and with identities replaced, of each node that was asked."""


@dataclass(frozen=True)
class Difference:
    """An object that is not the same on all nodes."""

    domain: str
    name: str
    sides: tuple[Side, ...]
    """The largest first."""
    place: Place

    @property
    def nodes(self) -> int:
        """The number of nodes that were compared, also those that were not asked."""
        return sum(map(len, self.place.sides))


def asked(places: Iterable[Place]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the further question: node -> what to show (``Request.asked``)."""
    wanted: dict[str, list[tuple[str, str]]] = {}
    for number, place in enumerate(places):
        if number == PLACES:
            break
        for side in place.sides[:SIDES]:
            wanted.setdefault(side[0], []).append((place.domain, place.name))
    return {node: tuple(dict.fromkeys(names)) for node, names in wanted.items()}


def differences(places: Iterable[Place], answers: Mapping[str, Branches]) -> Iterator[Difference]:
    """Yield the objects that differ; ``answers`` has the branches of each node that was asked."""
    seen: set[tuple[object, ...]] = set()
    for place in places:
        found = {side: shown for side in place.sides if (shown := _objects(place, side, answers))
                 is not None}  # fmt: skip
        if len(found) < min(len(place.sides), 2):
            continue  # a node did not answer; ``unanswered`` reports it
        for name in dict.fromkeys(name for objects in found.values() for name in objects):
            branches = {side: objects.get(name) for side, objects in found.items()}
            sides = _sides(branches, place.form)
            alone = place.domain == RUNNING
            key = (place.domain, name, place.sides if alone else None)
            if (len(sides) > 1 or alone) and key not in seen:
                seen.add(key)
                yield Difference(place.domain, name, sides, place)


def unanswered(places: Iterable[Place], answers: Mapping[str, Branches]) -> Iterator[Place]:
    """Yield the places whose fields are not known."""
    for place in places:
        known = sum(_objects(place, side, answers) is not None for side in place.sides)
        if known < min(len(place.sides), 2):
            yield place


def _objects(
    place: Place, side: tuple[str, ...], answers: Mapping[str, Branches]
) -> Mapping[str, list[Fields]] | None:
    """Return the objects of a place on one side; None if its node did not show them."""
    return answers.get(side[0], {}).get(place.domain, {}).get(place.name)


def _sides(
    found: Mapping[tuple[str, ...], list[Fields] | None], form: int | None = None
) -> tuple[Side, ...]:
    """Join the groups whose fields are equal, as they are or with identities replaced.

    Args:
        found: nodes -> their fields.
        form: the only form in which they may be equal (``Place.form``); None: either.
    """
    joined: list[tuple[list[str], list[list[Fields] | None]]] = []
    for nodes, branch in found.items():
        for together, branches in joined:
            if _equal(branch, branches[0], form):
                together.extend(nodes)
                branches.append(branch)
                break
        else:
            joined.append((list(nodes), [branch]))
    sides = [_side(nodes, branches) for nodes, branches in joined]
    return tuple(sorted(sides, key=lambda side: (-len(side.nodes), side.nodes)))


def _side(nodes: list[str], branches: list[list[Fields] | None]) -> Side:
    forms = [
        form
        for branch in branches
        if branch is not None
        for form in (branch[0], {**branch[0], **branch[1]})
    ]
    return Side(tuple(nodes), forms[1] if forms else None, tuple(forms))


def _equal(one: list[Fields] | None, other: list[Fields] | None, form: int | None) -> bool:
    if one is None or other is None:
        return one is other
    equal = (one[0] == other[0], {**one[0], **one[1]} == {**other[0], **other[1]})
    return any(equal) if form is None else equal[form]


def shown(domain: str) -> str:
    """Return the domain whose objects a domain of secret values describes."""
    return domain.removesuffix(PROTECTED)
