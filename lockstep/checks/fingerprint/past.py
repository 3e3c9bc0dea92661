"""An object that differs, in earlier checks: on which side a node was then, and since when.

Earlier fingerprints are hashes only, but the objects that differ now are known. So are their hashes
on each side. The sum of a bucket is the exclusive or of its objects' hashes: if an earlier sum
differs from the one of today by the hashes of some of these objects, these have changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TypeAlias

from lockstep.checks.fingerprint.objects import Branches, Difference, Fields, Side
from lockstep.checks.fingerprint.places import DIGITS, RUNNING, Taken
from lockstep.node.fingerprint.tree import bucket_of, hash_of, text_of
from lockstep.probe.versions import Version, Versions, agree
from lockstep.when import between, utc

Hashes: TypeAlias = tuple[str, str, str]
ABSENT = -1
"""The node did not have the object, which all sides have now."""
SUMS = 4096
"""At most so many sums are considered: each object of a bucket that differs doubles their number,
or more if it has more than two values."""


@dataclass(frozen=True)
class Then:
    """The side on which a node was in consecutive checks."""

    since: float
    until: float
    side: int | None
    """Number of the side, ``ABSENT``, or None if it is not known."""


@dataclass(frozen=True)
class Past:
    """The earlier fingerprints of nodes that must be equal."""

    versions: Versions
    taken: Mapping[str, Taken]
    """The fingerprints of now."""
    branches: Mapping[str, Branches]
    """The fields that nodes have shown."""

    def right(self, difference: Difference) -> Side | None:
        """Return the side that is as it was when all sides were last equal."""
        lines = [self.of_node(difference, self.known(side, difference.domain))
                 for side in difference.sides]  # fmt: skip
        moments = sorted({then.until for line in lines for then in line}, reverse=True)
        for moment in moments:
            found = {_side_at(line, moment) for line in lines}
            if len(found) == 1 and None not in found:
                (number,) = found
                return None if number is None or number == ABSENT else difference.sides[number]
        return None

    def changed(self, difference: Difference, node: str) -> str:
        """Return when the object has last changed on a node; "" if the history is too short."""
        return _last_change(self.of_node(difference, node))

    def of_node(self, difference: Difference, node: str) -> list[Then]:
        """Return on which side a node was, the newest first."""
        return _OnNode(self, difference, node).line() if self.of(node, difference) else []

    def known(self, side: Side, domain: str) -> str:
        """Return a node of a side, rather one with a past."""
        return next((one for one in side.nodes if (one, domain) in self.versions), side.nodes[0])

    def of(self, node: str, difference: Difference) -> Sequence[Version]:
        """Return the states of the object's domain on a node, the newest first."""
        return self.versions.get((node, difference.domain), ())


@dataclass(frozen=True)
class _OnNode:
    """One object on one node."""

    past: Past
    difference: Difference
    node: str

    def line(self) -> list[Then]:
        """Return on which side the node was; equal neighbours are joined."""
        line: list[Then] = []
        for version in self.past.of(self.node, self.difference):
            then = Then(version.since, version.until, self._side(version))
            if line and line[-1].side == then.side:
                line[-1] = replace(line[-1], since=then.since)
            else:
                line.append(then)
        return line

    def _side(self, version: Version) -> int | None:
        hashes = version.touched.get(self.difference.name)
        if hashes is not None:
            return next((side for side in self._sides if self._touched(side, hashes)), None)
        delta = self._delta(version)
        if delta is None:
            return None
        for common in (0, *self._common):
            for side, own in self._plain.items():
                if delta ^ common ^ own in self._others:
                    return side
        return None

    @cached_property
    def _sides(self) -> list[int]:
        """The numbers of the sides, the node's own first."""
        sides = self.difference.sides
        return sorted(range(len(sides)), key=lambda side: self.node not in sides[side].nodes)

    def _touched(self, side: int, hashes: Hashes) -> bool:
        """Return whether an object with an identity was as it is on a side."""
        node = self.node if side == self._sides[0] else self.difference.sides[side].nodes[0]
        now = self._apart(node).get(self.difference.name)
        if now is not None:
            return agree(now, hashes)
        number = self._hash(node, self.difference.name)
        return number != 0 and number == int(hashes[0], 16)

    @cached_property
    def _plain(self) -> dict[int, int]:
        """Side -> by what the sum differs if the object was as there; without identities."""
        name, found = self.difference.name, {}
        now = self._in_sum(self.node, name)
        for side in self._sides:
            node = self.node if side == self._sides[0] else self.difference.sides[side].nodes[0]
            if name not in self._apart(node):
                found[side] = self._hash(node, name) ^ now
        if all(side.fields is not None for side in self.difference.sides):
            found[ABSENT] = now
        return found

    @cached_property
    def _others(self) -> frozenset[int]:
        """By what the sum can differ because of other objects that are not equal now."""
        choices = []
        for name in self._differing:
            now = self._in_sum(self.node, name)
            values = {self._in_sum(node, name) for node in self._asked}
            choices.append({0, now, *(value ^ now for value in values)})
        found = {0}
        for one in choices:
            if len(found) * len(one) <= SUMS:
                found = {total ^ value for total, value in product(found, one)}
        return frozenset(found)

    @cached_property
    def _common(self) -> tuple[int, ...]:
        """By what the sum differed on this node and on others: they changed in the same way."""
        known = {own ^ other for own in self._plain.values() for other in self._others}
        domain, sides = self.difference.domain, self.difference.sides
        others = {self.past.known(side, domain) for side in sides} - {self.node}
        theirs = {
            delta
            for node in others
            for version in self.past.of(node, self.difference)
            if (delta := replace(self, node=node)._delta(version)) is not None
        }
        mine = (self._delta(one) for one in self.past.of(self.node, self.difference))
        return tuple(dict.fromkeys(one for one in mine if one in theirs - known and one))

    def _delta(self, version: Version) -> int | None:
        """Return by what the bucket's sum differs from now; None if that cannot be said."""
        now = self.past.taken[self.node].sums.get(self.difference.domain, "")
        if version.sums is None or (version.sums and now and len(version.sums) != len(now)):
            return None
        numbers = len(version.sums or now) // DIGITS
        return self._sum(version.sums, numbers) ^ self._sum(now, numbers)

    def _sum(self, sums: str, numbers: int) -> int:
        at = self._bucket(numbers) * DIGITS
        return int(sums[at : at + DIGITS] or "0", 16)

    def _bucket(self, numbers: int) -> int:
        place = self.difference.place.name
        if place.startswith("#") and place not in self._apart(self.node):
            return int(place[1:])
        name = self.difference.name
        hashes = (self._apart(node).get(name) for node in self._asked)
        known = next((one for one in hashes if one is not None), None)
        return bucket_of(name, numbers) if known is None else int(known[2])

    @cached_property
    def _asked(self) -> list[str]:
        """The nodes that have shown their fields, one of each group with equal hashes."""
        return [side[0] for side in self.difference.place.sides if self._objects(side[0])]

    @cached_property
    def _differing(self) -> list[str]:
        """The other objects of the bucket that are not equal now."""
        names = dict.fromkeys(name for node in self._asked for name in self._objects(node))
        alone = self.difference.domain == RUNNING  # each of its objects is a difference
        return [
            name
            for name in names
            if name != self.difference.name
            and (alone or len({self._in_sum(node, name) for node in self._asked}) > 1)
        ]

    def _objects(self, node: str) -> Mapping[str, list[Fields]]:
        place = self.difference.place
        return self.past.branches.get(node, {}).get(place.domain, {}).get(place.name, {})

    def _apart(self, node: str) -> Mapping[str, Hashes]:
        return self.past.taken[node].touched.get(self.difference.domain, {})

    def _in_sum(self, node: str, name: str) -> int:
        """Return the hash of an object, if it is part of its bucket's sum on a node."""
        return 0 if name in self._apart(node) else self._hash(node, name)

    def _hash(self, node: str, name: str) -> int:
        """Return the hash of an object as it is; 0 if the node does not have it."""
        shown = next(side[0] for side in self.difference.place.sides if node in side)
        branch = self._objects(shown).get(name)
        return 0 if branch is None else hash_of(text_of(self.difference.domain, name, branch[0]))


def _side_at(line: Sequence[Then], moment: float) -> int | None:
    return next((then.side for then in line if then.since <= moment <= then.until), None)


def _last_change(line: Sequence[Then]) -> str:
    """Return the time in which a node came to the side on which it is now."""
    if not line or line[0].side is None:
        return ""
    since = line[0].since
    for then in line[1:]:
        if then.side == line[0].side:
            since = then.since
        elif then.side is not None:
            return between(then.until, since)
    return "" if since == line[0].until else f"before {utc(since)}"
