"""Pure functions that compare values; they know nothing about plans, rules or texts."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import TypeAlias, TypeGuard

from pydantic import JsonValue

from lockstep.checks.rule import Bound
from lockstep.node.check.judge import BOUNDS
from lockstep.report import alike

MEMBERS_FOR_A_VOTE = 3
"""Minimum number of nodes for a majority: if two nodes disagree, either could be wrong."""


@dataclass(frozen=True)
class Vote:
    """One value, with its node and device."""

    node: str
    device: str
    value: JsonValue


_place = attrgetter("node", "device")


@dataclass(frozen=True)
class Majority:
    """The value with more than half of the votes, and the votes for other values.

    In the result of ``worse``, ``value`` is the limit and ``others`` are the votes that violate it.
    """

    value: JsonValue
    nodes: int
    of: int
    """The number of nodes that voted."""
    others: tuple[Vote, ...]


@dataclass(frozen=True)
class Split:
    """The groups of votes if no value has a majority; ``vote`` puts the largest group first."""

    sides: tuple[tuple[Vote, ...], ...]


def key(value: JsonValue) -> str:
    """Return a hashable form of a value; equal values have equal keys."""
    # For most strings this equals json.dumps, but is much faster. No other value's key begins
    # with a quote.
    return f'"{value}"' if isinstance(value, str) else json.dumps(value, sort_keys=True)


Values: TypeAlias = Mapping[str, Mapping[str, JsonValue]]
"""Node -> device -> value."""


def ballot(values: Values) -> list[Vote]:
    """Return one vote for each value."""
    return [Vote(node, device, v) for node, items in values.items() for device, v in items.items()]


def _distinct(values: Iterable[Mapping[str, JsonValue]]) -> Iterable[Mapping[str, JsonValue]]:
    """Return each mapping object once; nodes with equal readings share the same object."""
    return {id(items): items for items in values}.values()


def differing_slots(values: Values) -> dict[str, list[Vote]]:
    """Return the devices whose values differ between nodes, each with its votes."""
    first: dict[str, JsonValue] = {}
    differing = dict.fromkeys(
        device
        for items in _distinct(values.values())
        for device, value in items.items()
        if first.setdefault(device, value) != value
    )
    votes = (
        Vote(node, device, items[device])
        for node, items in values.items()
        for device in differing
        if device in items
    )
    return alike(votes, lambda one: one.device)


def all_alike(values: Iterable[Mapping[str, JsonValue]]) -> bool:
    """Return whether all devices of all nodes have the same value."""
    every = (value for items in _distinct(values) for value in items.values())
    return all(value == first for first in islice(every, 1) for value in every)


def vote(votes: Iterable[Vote]) -> Majority | Split | None:
    """Return the majority, or a split if no value has one; None if all values are equal.

    The order of the votes does not matter.
    """
    cast = list(votes)
    if len({key(one.value) for one in cast}) < 2:
        return None
    sides = alike(sorted(cast, key=_place), lambda one: key(one.value))
    ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), side[0]))
    nodes = {one.node for one in cast}
    largest = ordered[0][1]
    if len(nodes) < MEMBERS_FOR_A_VOTE or 2 * len(largest) <= len(cast):
        return Split(tuple(tuple(side) for _, side in ordered))
    return Majority(
        largest[0].value,
        len({one.node for one in largest}),
        len(nodes),
        tuple(one for _, side in ordered[1:] for one in side),
    )


def worse(votes: Iterable[Vote], bound: Bound, tolerance: float) -> Majority | Split | None:
    """Return the votes worse than the median by more than a tolerance, or None if there are none.

    The tolerance is a fraction of the median. The result is a split if too few values were compared
    to tell which of them are wrong.
    """
    every = sorted(votes, key=_place)
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
    """Return whether each node with wrong values has three or more values, most of them right."""
    devices = Counter(one.node for one in every)
    return all(
        devices[node] >= MEMBERS_FOR_A_VOTE and 2 * number < devices[node]
        for node, number in Counter(one.node for one in wrong).items()
    )


def holds(value: JsonValue, limit: JsonValue, bound: Bound) -> bool:
    """Return whether a number is on the right side of a limit."""
    return bool(BOUNDS[bound.value](number(value), number(limit)))


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a reading is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: JsonValue) -> float:
    """Return a reading as a number.

    Raises:
        TypeError: the reading is not a number, although the rule compares numbers.
    """
    if not is_number(value):
        raise TypeError(f"the reading is not a number: {value!r}")
    return float(value)


def multiset(items: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the values of all devices in sorted order."""
    return sorted(items.values(), key=key)


def duplicates(values: Values) -> list[tuple[Vote, ...]]:
    """Return the votes for each value that appears more than once."""
    times = Counter(key(value) for items in values.values() for value in items.values())
    if len(times) == times.total():
        return []
    several = [one for one in ballot(values) if times[key(one.value)] > 1]
    holders = alike(several, lambda one: key(one.value))
    return [tuple(sorted(same, key=_place)) for _, same in sorted(holders.items())]
