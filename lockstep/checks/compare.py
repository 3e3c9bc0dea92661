"""Values compared with each other: pure, no node, no rule, no text."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeGuard

from pydantic import JsonValue

from lockstep.checks.rule import Bound

MEMBERS_FOR_A_VOTE = 3
"""Nodes. With two, either can be wrong."""


@dataclass(frozen=True)
class Vote:
    """One value, with its node and device."""

    node: str
    device: str
    value: JsonValue


@dataclass(frozen=True)
class Majority:
    """More than half agree; the others are named."""

    value: JsonValue
    nodes: int
    of: int
    """Nodes that voted."""
    others: tuple[Vote, ...]


@dataclass(frozen=True)
class Split:
    """Values differ without a majority: every side, largest first."""

    sides: tuple[tuple[Vote, ...], ...]


def key(value: JsonValue) -> str:
    """Return a hashable form of a value; equal values have equal keys."""
    # The same for most, and much faster; no other value's form begins as that of a text.
    return f'"{value}"' if isinstance(value, str) else json.dumps(value, sort_keys=True)


Values: TypeAlias = Mapping[str, Mapping[str, JsonValue]]
"""Node -> device -> value."""


def ballot(values: Values) -> list[Vote]:
    """Return every value as one vote."""
    return [Vote(node, device, v) for node, items in values.items() for device, v in items.items()]


def _distinct(values: Iterable[Mapping[str, JsonValue]]) -> Iterable[Mapping[str, JsonValue]]:
    """Return each object once: nodes whose readings are equal share them."""
    return {id(items): items for items in values}.values()


def differing_slots(values: Values) -> dict[str, list[Vote]]:
    """Return the votes of each device whose values differ between nodes."""
    first: dict[str, JsonValue] = {}
    differing: dict[str, list[Vote]] = {}
    for items in _distinct(values.values()):
        for device, value in items.items():
            if first.setdefault(device, value) != value:
                differing[device] = []
    for node, items in values.items() if differing else ():
        for device in items.keys() & differing.keys():
            differing[device].append(Vote(node, device, items[device]))
    return differing


def all_alike(values: Iterable[Mapping[str, JsonValue]]) -> bool:
    """Say whether all devices of all nodes have one value."""
    every = (value for items in _distinct(values) for value in items.values())
    return all(value == first for first in islice(every, 1) for value in every)


def vote(votes: Iterable[Vote]) -> Majority | Split | None:
    """Return the majority, or the sides without one; None when all agree. Order is irrelevant."""
    cast = list(votes)
    if len({key(one.value) for one in cast}) < 2:
        return None
    sides: dict[str, list[Vote]] = {}
    for one in sorted(cast, key=lambda v: (v.node, v.device)):
        sides.setdefault(key(one.value), []).append(one)
    ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), side[0]))
    total = sum(len(side) for _, side in ordered)
    nodes = {one.node for _, side in ordered for one in side}
    largest = ordered[0][1]
    if len(nodes) < MEMBERS_FOR_A_VOTE or 2 * len(largest) <= total:
        return Split(tuple(tuple(side) for _, side in ordered))
    return Majority(
        largest[0].value,
        len({one.node for one in largest}),
        len(nodes),
        tuple(one for _, side in ordered[1:] for one in side),
    )


def worse(votes: Iterable[Vote], bound: Bound, tolerance: float) -> Majority | Split | None:
    """Return the values on the wrong side of the median by more than a share of it."""
    every = sorted(votes, key=lambda v: (v.node, v.device))
    numbers = [number(one.value) for one in every]
    if not numbers:
        return None
    median = statistics.median(numbers)
    slack = abs(median) * tolerance
    limit = median - slack if bound is Bound.AT_LEAST else median + slack
    wrong = tuple(one for one in every if not holds(one.value, limit, bound))
    if not wrong:
        return None
    nodes = {one.node for one in every}
    right = tuple(one for one in every if one not in wrong)
    if len(nodes) < MEMBERS_FOR_A_VOTE and not _alone_on_their_nodes(every, wrong):
        return Split((right, wrong))
    return Majority(limit, len({one.node for one in right}), len(nodes), wrong)


def _alone_on_their_nodes(every: Iterable[Vote], wrong: Iterable[Vote]) -> bool:
    """Say whether most devices of each such node are right."""
    devices = Counter(one.node for one in every)
    return all(
        devices[node] >= MEMBERS_FOR_A_VOTE and 2 * number < devices[node]
        for node, number in Counter(one.node for one in wrong).items()
    )


def holds(value: JsonValue, limit: JsonValue, bound: Bound) -> bool:
    """Say whether a number is on the right side of a limit."""
    if bound is Bound.AT_LEAST:
        return number(value) >= number(limit)
    return number(value) <= number(limit)


def is_number(value: object) -> TypeGuard[int | float]:
    """Say whether a reading is a number; yes and no are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: JsonValue) -> float:
    """Return a reading as a number.

    Raises:
        TypeError: it is no number; the rule has the wrong reading for its kind.
    """
    if not is_number(value):
        raise TypeError(f"not a number: {value!r}")
    return float(value)


def multiset(items: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the values of all devices, so ordered that only the values matter."""
    return sorted(items.values(), key=key)


def duplicates(values: Values) -> list[tuple[Vote, ...]]:
    """Return the holders of each value that appears more than once."""
    times = Counter(key(value) for items in values.values() for value in items.values())
    if len(times) == times.total():
        return []
    holders: dict[str, list[Vote]] = {}
    for one in ballot(values):
        if times[key(one.value)] > 1:
            holders.setdefault(key(one.value), []).append(one)
    return [
        tuple(sorted(same, key=lambda v: (v.node, v.device))) for _, same in sorted(holders.items())
    ]
