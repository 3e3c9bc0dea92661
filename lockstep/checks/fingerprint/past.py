"""An object that differs, in earlier checks: on which side a node was then, and since when.

Earlier fingerprints are hashes only, but the objects that differ now are known. So are their hashes
on each side. The sum of a bucket is the exclusive or of its objects' hashes: if an earlier sum
differs from the one of today by the hashes of some of these objects, these have changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    _shown: dict[int, _Shown] = field(default_factory=dict)
    """Id of a difference -> what is known of its bucket. It keeps the difference."""

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
        if not self.of(node, difference):
            return []
        if id(difference) not in self._shown:
            self._shown[id(difference)] = _Shown(self, difference)
        shown = self._shown[id(difference)]
        on_node = _OnNode(self, difference, node, shown)
        # Thousands of nodes can be on a side: those that were and are alike are judged once.
        key = on_node.key()
        if key not in shown.lines:
            shown.lines[key] = on_node.line()
        return shown.lines[key]

    def known(self, side: Side, domain: str) -> str:
        """Return a node of a side, rather one with a past."""
        return next((one for one in side.nodes if (one, domain) in self.versions), side.nodes[0])

    def of(self, node: str, difference: Difference) -> Sequence[Version]:
        """Return the states of the object's domain on a node, the newest first."""
        return self.versions.get((node, difference.domain), ())


@dataclass(frozen=True)
class _Shown:
    """What the nodes have shown of the bucket of an object that differs."""

    past: Past
    difference: Difference
    lines: dict[Hashable, list[Then]] = field(default_factory=dict)
    """The lines of nodes, by what they follow from (``_OnNode.key``)."""
    _hashes: dict[tuple[str, str], int] = field(default_factory=dict)
    _values: dict[str, frozenset[int]] = field(default_factory=dict)

    @cached_property
    def by_node(self) -> dict[str, str]:
        """Node -> the node that was asked for all of its side."""
        return {node: side[0] for side in self.difference.place.sides for node in side}

    @cached_property
    def sides(self) -> dict[str, int]:
        """Node -> the number of its side."""
        return {node: n for n, side in enumerate(self.difference.sides) for node in side.nodes}

    @cached_property
    def asked(self) -> list[str]:
        """The nodes that have shown their fields, one of each group with equal hashes."""
        return [side[0] for side in self.difference.place.sides if self.objects(side[0])]

    @cached_property
    def known(self) -> frozenset[str]:
        """A node of each side, with a past if any node of the side has one."""
        domain, sides = self.difference.domain, self.difference.sides
        return frozenset(self.past.known(side, domain) for side in sides)

    @cached_property
    def names(self) -> list[str]:
        """The other objects of the bucket."""
        names = dict.fromkeys(name for node in self.asked for name in self.objects(node))
        return [name for name in names if name != self.difference.name]

    @cached_property
    def differing(self) -> list[str]:
        """The other objects of the bucket that are not equal now."""
        alone = self.difference.domain == RUNNING  # each of its objects is a difference
        return [name for name in self.names if alone or len(self.values(name)) > 1]

    def values(self, name: str) -> frozenset[int]:
        """Return the hashes of an object in the sums of the nodes that were asked."""
        if name not in self._values:
            self._values[name] = frozenset(self.in_sum(node, name) for node in self.asked)
        return self._values[name]

    def objects(self, node: str) -> Mapping[str, list[Fields]]:
        """Return the objects that a node has shown."""
        place = self.difference.place
        return self.past.branches.get(node, {}).get(place.domain, {}).get(place.name, {})

    def apart(self, node: str) -> Mapping[str, Hashes]:
        """Return the objects of a node that contain an identity."""
        return self.past.taken[node].touched.get(self.difference.domain, {})

    def in_sum(self, node: str, name: str) -> int:
        """Return the hash of an object, if it is part of its bucket's sum on a node."""
        return 0 if name in self.apart(node) else self.hash_on(node, name)

    def hash_on(self, node: str, name: str) -> int:
        """Return the hash of an object as it is; 0 if the node does not have it."""
        shown = self.by_node[node]
        if (shown, name) not in self._hashes:
            branch, domain = self.objects(shown).get(name), self.difference.domain
            text = "" if branch is None else text_of(domain, name, branch[0])
            self._hashes[shown, name] = hash_of(text) if text else 0
        return self._hashes[shown, name]


@dataclass(frozen=True)
class _OnNode:
    """One object on one node."""

    past: Past
    difference: Difference
    node: str
    shown: _Shown

    def key(self) -> Hashable:
        """Return all from which ``line`` follows. It is the same for many nodes."""
        shown, name, apart = self.shown, self.difference.name, self.shown.apart(self.node)
        versions = self.past.of(self.node, self.difference)
        now = self.past.taken[self.node].sums.get(self.difference.domain, "")
        place = self.difference.place.name
        return (
            shown.sides.get(self.node),
            shown.by_node.get(self.node),
            self.node if self.node in shown.known else None,
            tuple(apart.get(name, ())),
            place in apart,
            tuple(other for other in shown.names if other in apart),
            self._at(now),
            tuple(
                (one.since, one.until, one.touched.get(name), self._at(one.sums))
                for one in versions
            ),
        )

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
        own = self.shown.sides.get(self.node)
        return sorted(range(len(self.difference.sides)), key=lambda side: side != own)

    def _touched(self, side: int, hashes: Hashes) -> bool:
        """Return whether an object with an identity was as it is on a side."""
        node = self.node if side == self._sides[0] else self.difference.sides[side].nodes[0]
        now = self.shown.apart(node).get(self.difference.name)
        if now is not None:
            return agree(now, hashes)
        number = self.shown.hash_on(node, self.difference.name)
        return number != 0 and number == int(hashes[0], 16)

    @cached_property
    def _plain(self) -> dict[int, int]:
        """Side -> by what the sum differs if the object was as there; without identities."""
        name, found = self.difference.name, {}
        now = self.shown.in_sum(self.node, name)
        for side in self._sides:
            node = self.node if side == self._sides[0] else self.difference.sides[side].nodes[0]
            if name not in self.shown.apart(node):
                found[side] = self.shown.hash_on(node, name) ^ now
        if all(side.fields is not None for side in self.difference.sides):
            found[ABSENT] = now
        return found

    @cached_property
    def _others(self) -> frozenset[int]:
        """By what the sum can differ because of other objects that are not equal now."""
        choices = []
        for name in self.shown.differing:
            now = self.shown.in_sum(self.node, name)
            choices.append({0, now, *(value ^ now for value in self.shown.values(name))})
        found = {0}
        for one in choices:
            if len(found) * len(one) <= SUMS:
                found = {total ^ value for total, value in product(found, one)}
        return frozenset(found)

    @cached_property
    def _common(self) -> tuple[int, ...]:
        """By what the sum differed on this node and on others: they changed in the same way."""
        known = {own ^ other for own in self._plain.values() for other in self._others}
        others = self.shown.known - {self.node}
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
        if place.startswith("#") and place not in self.shown.apart(self.node):
            return int(place[1:])
        name = self.difference.name
        hashes = (self.shown.apart(node).get(name) for node in self.shown.asked)
        known = next((one for one in hashes if one is not None), None)
        return bucket_of(name, numbers) if known is None else int(known[2])

    def _at(self, sums: str | None) -> tuple[int, str] | None:
        """Return the number of digits of sums, and the sum of the bucket."""
        if not sums:
            return None if sums is None else (0, "")
        at = self._bucket(len(sums) // DIGITS) * DIGITS
        return len(sums), sums[at : at + DIGITS]


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
