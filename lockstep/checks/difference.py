"""Two records, or two plans, item by item: every difference, without a judgement. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pydantic import JsonValue

from lockstep.checks.folding import NUMBERED
from lockstep.checks.rule import as_text
from lockstep.probe.record import Record, Unread, item
from lockstep.report import fold

ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """One place where two sides differ."""

    reading: str
    place: str
    """Device or item inside the reading; "" for the whole of it."""
    left: str
    right: str


@dataclass
class Comparison:
    """All differences of two sides, and what both lack."""

    differences: list[Difference] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Readings that neither side has, for the same reason: equality is unknown."""
    left_out: int = 0
    """Places whose difference is expected."""

    def to_text(self, left: str, right: str) -> str:
        """Return a block per difference; what differs alike on several devices is one."""
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
    """Return where two records differ, without the places that the patterns ignore."""
    found = Comparison()
    for name in sorted({*left.readings, *right.readings}):
        one, other = left.get(name), right.get(name)
        if isinstance(one, Unread) and one == other:
            if not _ignored(ignored, (name,)):
                found.unread.append(name)
            continue
        shown = [*_between(name, (), one, other, ignored)]
        found.differences += shown
        found.left_out += sum(1 for _ in _between(name, (), one, other, ())) - len(shown)
    return found


def of_values(
    left: Mapping[str, JsonValue], right: Mapping[str, JsonValue]
) -> Iterator[Difference]:
    """Yield where two maps of names to values differ."""
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
    """Return what only one side has; both in full where they differ in their order alone."""
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
    alike: dict[tuple[str, str, str, str], list[Difference]] = {}
    for one in differences:
        numbered = NUMBERED.fullmatch(one.place) is not None
        same = "" if numbered else one.place
        alike.setdefault((one.reading, same, one.left, one.right), []).append(one)
    for group in alike.values():
        first = group[0]
        several = fold(one.place for one in group) if len(group) > 1 else first.place
        yield Difference(first.reading, several, first.left, first.right)
