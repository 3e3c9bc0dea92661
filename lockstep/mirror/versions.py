"""The version that is nearest to another one."""

from __future__ import annotations

import re
from collections.abc import Iterable


def nearest(wanted: str, available: Iterable[str]) -> str | None:
    """Return the version that is nearest to a wanted one; None if there is none.

    Versions of the same branch are nearer than others: the first number that differs decides, and
    then how much it differs. Of two versions that are equally near, the newer one is returned.

    Args:
        wanted: a version, or a pattern such as ``550.163.01-*``.
        available: versions of the same package.
    """
    numbers = _numbers(wanted)

    def distance(version: str) -> tuple[list[int], list[int]]:
        other = _numbers(version)[: len(numbers)]
        other += [0] * (len(numbers) - len(other))
        apart = [abs(one - two) for one, two in zip(numbers, other, strict=True)]
        return apart, [-number for number in _numbers(version)]

    return min(available, key=distance, default=None)


def _numbers(version: str) -> list[int]:
    """Return the numbers of a version, without its epoch: 1:4.6.0-1 -> 4, 6, 0, 1."""
    _, colon, rest = version.partition(":")
    return [int(number) for number in re.findall(r"\d+", rest if colon else version)]
