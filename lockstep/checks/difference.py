"""Finds every difference between two records or two plans, without using rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from pydantic import JsonValue

from lockstep.checks.folding import NUMBERED
from lockstep.checks.rule import as_text
from lockstep.probe.record import Record, Unread, item
from lockstep.report import alike, fold

ABSENT = "absent"
HASHES = "fingerprint"
"""Beginning of the readings that have hashes, which mean nothing to a reader."""


@dataclass(frozen=True)
class Difference:
    """One place where two sides differ."""

    reading: str
    place: str
    """The device or item in the reading; "" for the whole reading."""
    left: str
    right: str


@dataclass
class Comparison:
    """The differences between two sides, and the readings that neither side has."""

    differences: list[Difference] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Readings that both sides lack for the same reason; it is unknown whether they differ."""
    without_fingerprint: list[str] = field(default_factory=list)
    """The side ("left" or "right") that has no fingerprint, if only one has none that can be
    compared: the whole configuration was not compared then."""
    left_out: int = 0
    """The number of differences that are not shown because they are expected."""

    def to_text(self, left: str, right: str) -> str:
        """Return a block of text per difference; devices with the same difference share a block."""
        width = max(len(left), len(right))
        lines: list[str] = []
        for one in _folded(self.differences):
            lines.append(f"{one.reading} {one.place}".rstrip())
            for name, text in ((left, one.left), (right, one.right)):
                first, *others = text.splitlines() or [""]
                lines.append(f"  {name:{width}}  {first}")
                lines += [f"  {'':{width}}  {other}" for other in others]
            lines.append("")
        return "".join(f"{line}\n" for line in lines)


def of_records(left: Record, right: Record, ignored: Collection[str]) -> Comparison:
    """Compare two records, leaving out places that match a pattern in ``ignored``."""
    found = Comparison()
    for name in sorted({*left.readings, *right.readings}):
        one, other = left.get(name), right.get(name)
        if isinstance(one, Unread) and one == other:
            if not _ignored(ignored, (name,)):
                found.unread.append(name)
            continue
        if name.startswith(HASHES):
            continue
        shown = [*_between(name, (), one, other, ignored)]
        found.differences += shown
        found.left_out += sum(1 for _ in _between(name, (), one, other, ())) - len(shown)
    return found


def of_values(
    left: Mapping[str, JsonValue], right: Mapping[str, JsonValue]
) -> Iterator[Difference]:
    """Yield the differences between two maps of names to values."""
    for name in sorted({*left, *right}):
        yield from _between(name, (), left.get(name), right.get(name), ())


def _between(
    reading: str,
    path: tuple[str, ...],
    left: JsonValue | Unread,
    right: JsonValue | Unread,
    ignored: Collection[str],
) -> Iterator[Difference]:
    if left == right or _ignored(ignored, (reading, *path)):
        return
    place = " ".join(path)
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            here, there = (item(side[key]) if key in side else None for side in (left, right))
            yield from _between(reading, (*path, key), here, there, ignored)
    elif isinstance(left, list) and isinstance(right, list):
        mine, other = (
            [one for one in side if not _ignored(ignored, (reading, *path, str(one)))]
            for side in (left, right)
        )
        if mine != other:
            yield Difference(reading, place, *_of_lists(mine, other))
    else:
        yield Difference(reading, place, _shown(left), _shown(right))


def _of_lists(left: list[JsonValue], right: list[JsonValue]) -> tuple[str, str]:
    """Return the entries that only one side has, or both lists if only the order differs."""
    here = [one for one in left if one not in right]
    there = [one for one in right if one not in left]
    if not here and not there:
        return _shown(left), _shown(right)
    return _lacking(here), _lacking(there)


def _lacking(extra: list[JsonValue]) -> str:
    return "\n".join(f"+ {one}" for one in extra) or "-"


def _shown(value: JsonValue | Unread) -> str:
    if isinstance(value, Unread):
        return f"not read: {value.unread}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(inner)}" for key, inner in value.items()) or "nothing"
    return ABSENT if value is None else as_text(value)


def _ignored(patterns: Collection[str], path: tuple[str, ...]) -> bool:
    name = ".".join(path)
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _folded(differences: Iterable[Difference]) -> Iterator[Difference]:
    groups = alike(
        differences,
        lambda one: replace(one, place="" if NUMBERED.fullmatch(one.place) else one.place),
    )
    for group in groups.values():
        several = fold(one.place for one in group) if len(group) > 1 else group[0].place
        yield replace(group[0], place=several)
