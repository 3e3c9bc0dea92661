"""Slurm's hostlists: ``worker[1-3,7],head`` (scontrol(1), show hostlist)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

NAMES = re.compile(r"(?:[^,\s\[\]]|\[[^\]]*\])+")
"""One element of a list: a comma in brackets does not end it."""
PARTS = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")
NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")
"""The last number of a name, and the texts around it."""


def expand(text: str) -> list[str]:
    """Return the names of a list, in its order.

    Raises:
        ValueError: a range has no numbers.
    """
    return [name for element in NAMES.findall(text) for name in _element(element)]


def _element(text: str) -> Iterator[str]:
    parts = [
        [plain] if plain else list(_ranges(ranges, text)) for ranges, plain in PARTS.findall(text)
    ]
    return ("".join(chosen) for chosen in itertools.product(*parts))


def _ranges(text: str, whole: str) -> Iterator[str]:
    for one in text.split(","):
        first, _, last = one.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            raise ValueError(f"{whole}: the hostlist has no numbers in its brackets")
        for number in range(int(first), int(last or first) + 1):
            yield f"{number:0{len(first)}d}"


def fold(names: Iterable[str]) -> str:
    """Return names as a sorted list: numbers that follow each other become a range."""
    alike: dict[tuple[str, str, int], set[int]] = {}
    found: list[str] = []
    for name in sorted(set(names)):
        match = NUMBERED.fullmatch(name)
        if match is None:
            found.append(name)
            continue
        before, digits, after = match.groups()
        # "08" and "8" are two names; "8" and "10" are in one range.
        width = len(digits) if digits.startswith("0") else 0
        if f"{before}{int(digits):0{len(digits)}d}{after}" == name:
            alike.setdefault((before, after, width), set()).add(int(digits))
    for (before, after, width), numbers in alike.items():
        texts = [
            f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}"
            for low, high in _runs(numbers)
        ]
        inside = ",".join(texts)
        plain = len(texts) == 1 and "-" not in inside
        found.append(before + (inside if plain else f"[{inside}]") + after)
    return ",".join(sorted(found))


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of numbers that follow each other."""
    for _, run in itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        yield values[0], values[-1]
