"""Every value of a record is changed on one of eight nodes: one finding, or a reason for none."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from lockstep.checks.not_compared import NOT_ALONE, NOT_JUDGED
from lockstep.node.readers.collect import READERS
from lockstep.probe.record import Record, Unread
from tests.checks import recorded
from tests.checks.mutation import NODE
from tests.checks.test_mutations import ALL

READ = {name for _, names, *_ in READERS for name in names}
Place = tuple[str, tuple[str, ...]]
"""A reading, and the keys that lead to a value inside of it."""


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value and value.keys() != {"unread"}:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def record() -> Record:
    got = recorded.consistent().reading[NODE]
    assert isinstance(got, Record)
    return got


def places() -> list[Place]:
    """One place of each shape: of equal items (files, units, GPUs) the first one."""
    found: dict[Place, Place] = {}
    for reading in sorted(READ & record().readings.keys()):
        value = record().get(reading)
        if not isinstance(value, Unread):
            for path, _ in leaves(value):
                found.setdefault(shape(reading, path), (reading, path))
    return list(found.values())


def another(value: Any) -> Any:
    """Another value of the same type, as a drift might leave it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1000
    if isinstance(value, list):
        return [*value, "drift"]
    if isinstance(value, dict):  # one that is empty, or says that it was not read
        return {"drift": "drift"}
    return "drift"


def value_at(place: Place) -> Any:
    value: Any = record().get(place[0])
    for key in place[1]:
        value = value[key]
    return value


def shape(reading: str, path: tuple[str, ...]) -> Place:
    """The place with its item (a file, a unit, a GPU) left open."""
    return reading, ("*", *path[1:]) if path else ()


PROVED = {shape(mutation.reading, mutation.path) for mutation in ALL}
"""A chosen value is tried there: not every other one is a drift (a bound, a format, a log)."""


def why_not(place: Place) -> str | None:
    """The reason why nothing is said of a place; None where something must be said."""
    name = ".".join((place[0], *place[1]))
    for listed, reason in (NOT_JUDGED | NOT_ALONE).items():
        if place[0] == listed or fnmatchcase(name, listed):
            return reason
    return None


def proved(place: Place) -> bool:
    empty = value_at(place) == {}
    return shape(*place) in PROVED or (empty and (place[0], ("*",)) in PROVED)


OF_OTHERS = frozenset(
    {
        *("firewall.rules", "selinux.modules", "selinux.booleans", "selinux.labels"),
        *("kubernetes.manifests", "kubernetes.objects", "kubernetes.releases"),
        "kubernetes.unavailable",
    }
)
"""Readings that are empty in this cluster: test_firewall.py, test_selinux.py and test_kubernetes.py
change them."""
PLACES = [place for place in places() if not proved(place) and place[0] not in OF_OTHERS]
PER_ENGINE = ("driver.instance_files",)
"""The node's side of what the containers of two engines are held against: one finding of each."""


@pytest.mark.parametrize("place", PLACES, ids=[".".join((r, *path)) for r, path in PLACES])
def test_a_change_is_one_finding_or_has_its_reason(place: Place) -> None:
    value = another(value_at(place))
    changed = recorded.mutated(recorded.consistent(), NODE, *place, value)
    found = [(f.rule, f.node, f.device, f.found) for f in recorded.report(changed)]
    reason = why_not(place)
    if reason is None:
        assert len(found) == (2 if place[0] in PER_ENGINE else 1), found
        assert found[0][1] == NODE, "another node is blamed"
    else:
        assert found == [], f"listed as not compared: {reason}"


def test_no_reason_is_given_for_what_is_not_there() -> None:
    names = [".".join(place) for reading, path in places() for place in [(reading, *path)]]
    for listed in NOT_JUDGED | NOT_ALONE:
        assert any(
            name == listed or name.startswith(f"{listed}.") or fnmatchcase(name, listed)
            for name in names
        ), listed
