"""Where the sums of equal nodes differ: buckets, and objects that contain an identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.node.fingerprint.slow import NAMES as SLOW
from lockstep.node.fingerprint.tree import BYTES, PROTECTED

DIGITS = 2 * BYTES
RUNNING = "running"
"""The domain of what runs otherwise than it is configured. Each of its objects is a difference."""


@dataclass(frozen=True)
class Taken:
    """The fingerprint of a node: the value of the reading ``fingerprint``."""

    format: int
    sums: Mapping[str, str]
    count: Mapping[str, int]
    touched: Mapping[str, Mapping[str, tuple[str, str, str]]]
    unread: Mapping[str, str]
    key: str
    slow: Mapping[str, float] = field(default_factory=dict)
    """Slow domain -> Unix time at which the node read it (``node.fingerprint.slow``)."""

    @staticmethod
    def of(value: Any) -> Taken:
        """Return the fingerprint in a record."""
        return Taken(**value)


@dataclass(frozen=True)
class Place:
    """A bucket or a touched object whose hashes differ."""

    domain: str
    name: str
    """``#`` and the number of a bucket, or the name of a touched object."""
    sides: tuple[tuple[str, ...], ...]
    """Groups of nodes with equal hashes, the largest first."""
    form: int | None = None
    """Of a touched object: 0 if most nodes agree on it as it is, 1 with identities replaced. Only
    in this form nodes are equal: the file of another node is wrong, although it is right there."""


def differing(
    nodes: Mapping[str, Taken], clusters: Mapping[str, str] | None = None
) -> Iterator[Place]:
    """Yield the places in which nodes of one kind differ.

    Args:
        nodes: node -> its fingerprint.
        clusters: node -> its cluster, if the nodes are from several. Each has its own secrets.
    """
    domains = dict.fromkeys(name for taken in nodes.values() for name in taken.sums)
    for domain in domains:
        among = {name: taken for name, taken in nodes.items() if _is_read(domain, taken)}
        if not domain.endswith(PROTECTED):
            yield from _of_domain(domain, among)
            continue
        # Hashes with different keys cannot be compared; a rule reports the other key.
        same: dict[tuple[str, str], dict[str, Taken]] = {}
        for name, taken in among.items():
            same.setdefault(((clusters or {}).get(name, ""), taken.key), {})[name] = taken
        for some in same.values():
            yield from _of_domain(domain, some)


def _of_domain(domain: str, among: Mapping[str, Taken]) -> Iterator[Place]:
    if domain != RUNNING and _are_equal(domain, among.values()):
        return
    buckets = max(len(taken.sums.get(domain, "")) for taken in among.values()) // DIGITS
    sums = {name: taken.sums.get(domain) or "0" * DIGITS * buckets for name, taken in among.items()}
    touched = {name: taken.touched.get(domain, {}) for name, taken in among.items()}
    apart: dict[str, dict[int, int]] = {}
    for name in dict.fromkeys(name for objects in touched.values() for name in objects):
        hashes = {node: found[name] for node, found in touched.items() if name in found}
        if domain != RUNNING and 2 * len(hashes) > len(among):
            # Elsewhere the object is part of its bucket, or is missing.
            number = int(next(iter(hashes.values()))[2])
            others = _of_bucket({node: sums[node] for node in among if node not in hashes}, number)
            values: dict[str, Hashable] = {node: ("", text) for node, text in others.items()}
            form = _agreeing(hashes)
            agreed = {node: both[form] for node, both in hashes.items()}
            yield from _place(domain, name, {**values, **agreed}, form)
        else:
            # On most nodes it is in the sum, if there is one.
            for node, (raw, _, bucket) in hashes.items():
                added = apart.setdefault(node, {})
                added[int(bucket)] = added.get(int(bucket), 0) ^ int(raw, 16)
    for node, added in apart.items():
        sums[node] = _with(sums[node], added)
    if domain == RUNNING:
        sums = {node: text for node, text in sums.items() if text.strip("0")}
        for number in range(buckets):
            for side in _groups(_of_bucket(sums, number)):
                if _of_bucket(sums, number)[side[0]].strip("0"):
                    yield Place(domain, f"#{number}", (side,))
        return
    if len(set(sums.values())) < 2:
        return
    for number in range(buckets):
        yield from _place(domain, f"#{number}", _of_bucket(sums, number))


def _are_equal(domain: str, among: Iterable[Taken]) -> bool:
    """Return whether all nodes have the same sums, and the same objects after the replacement.

    There is nothing to compare then, object by object: nearly always, since nodes are equal.
    """
    first: Taken | None = None
    usual: dict[str, tuple[str, str]] = {}
    for taken in among:
        objects = taken.touched.get(domain, {})
        if first is None:
            first = taken
            usual = {name: (replaced, at) for name, (_, replaced, at) in objects.items()}
        elif taken.sums.get(domain) != first.sums.get(domain) or len(objects) != len(usual):
            return False
        else:
            for name, (_, replaced, at) in objects.items():
                if usual.get(name) != (replaced, at):
                    return False
    return True


def _is_read(domain: str, taken: Taken) -> bool:
    name = domain.removesuffix(PROTECTED)
    return name not in taken.unread and (name not in SLOW or name in taken.slow)


def _agreeing(hashes: Mapping[str, tuple[str, str, str]]) -> int:
    """Return the form in which most nodes agree: 0 as it is, or 1 replaced, also if both are even.

    One of three nodes that has the file of another one would be even.
    """

    def most(form: int) -> int:
        return Counter(both[form] for both in hashes.values()).most_common(1)[0][1]

    return max((1, 0), key=most)


def _with(sums: str, added: Mapping[int, int]) -> str:
    numbers = [sums[at : at + DIGITS] for at in range(0, len(sums), DIGITS)]
    for bucket, number in added.items():
        numbers[bucket] = f"{int(numbers[bucket], 16) ^ number:0{DIGITS}x}"
    return "".join(numbers)


def _of_bucket(sums: Mapping[str, str], number: int) -> dict[str, str]:
    at = number * DIGITS
    return {node: text[at : at + DIGITS] for node, text in sums.items()}


def _place(
    domain: str, name: str, values: Mapping[str, Hashable], form: int | None = None
) -> Iterator[Place]:
    sides = _groups(values)
    if len(sides) > 1:
        yield Place(domain, name, sides, form)


def _groups(values: Mapping[str, Hashable]) -> tuple[tuple[str, ...], ...]:
    """Return the nodes with equal values, the largest group first."""
    groups: dict[Hashable, list[str]] = {}
    for node, value in values.items():
        groups.setdefault(value, []).append(node)
    return tuple(sorted(map(tuple, groups.values()), key=lambda side: (-len(side), side)))
