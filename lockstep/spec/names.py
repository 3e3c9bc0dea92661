"""Node names and CPU sets in compact notation: ``worker[0001-2000]``, ``0-3,56``.

Node names use Slurm's hostlist format, CPU sets Linux's cpulist format; ClusterShell parses and
formats both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSet, RangeSetException

MOST = 30_000
"""Names in a range, and nodes in a cluster. The plan of so many nodes is made in a few seconds."""
MOST_NUMBERS = 65_536
"""Numbers in a list, far more than a machine has CPUs."""

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_FROM_TO = re.compile(r"\s*([0-9]+)\s*-\s*([0-9]+)\s*(/.*)?", re.DOTALL)


class TooManyError(ValueError):
    """Raised for a range of more names or numbers than Lockstep works with."""


def most(names: str) -> int:
    """Return how many names a range has at most, without writing them out.

    Raises:
        ValueError: a number has thousands of digits.
    """
    counted = _BRACKETS.sub(lambda found: f"[{_numbers(found[1])}]", names)
    parts = re.split(r"[,!&^]", counted)
    return sum(math.prod(map(int, re.findall(r"\[([0-9]+)\]", part))) for part in parts)


def _numbers(ranges: str) -> int:
    found = (_FROM_TO.fullmatch(one) for one in ranges.split(","))
    return sum(max(1, int(one[2]) - int(one[1]) + 1) if one else 1 for one in found)


@cache
def expand(names: str) -> tuple[str, ...]:
    """Return every name in a range, in order.

    Raises:
        TooManyError: the range has more than ``MOST`` names.
        ValueError: the text is not a name range.
    """
    if most(names) > MOST:
        raise TooManyError(f"at most {MOST:,} names")
    try:
        # No resolver: "@x" would otherwise look up ClusterShell's groups on this machine.
        return tuple(NodeSet(names, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise ValueError(str(error)) from error


@cache
def cpus(text: str) -> frozenset[int]:
    """Return the CPU numbers of a list such as ``0-3,56-59`` (Linux's cpulist format).

    Raises:
        TooManyError: the list has more than ``MOST_NUMBERS`` numbers.
        ValueError: the text is not a list of CPU numbers.
    """
    if not text:
        return frozenset()
    if _numbers(text) > MOST_NUMBERS:
        raise TooManyError(f"at most {MOST_NUMBERS:,} numbers")
    try:
        numbers = frozenset(RangeSet(text).intiter())
    except RangeSetException as error:
        raise ValueError(str(error)) from error
    if min(numbers, default=0) < 0:
        raise ValueError(f"the CPU list {text!r} contains a negative number")
    return numbers


def cpulist(numbers: Iterable[int]) -> str:
    """Return CPU numbers in Linux's cpulist format: ``0-3,56-59``; "" for none."""
    return _written(frozenset(numbers))


@cache
def _written(numbers: frozenset[int]) -> str:
    return str(RangeSet(",".join(map(str, sorted(numbers))))) if numbers else ""
