"""Node names and CPU sets in compact notation: ``worker[0001-2000]``, ``0-3,56``.

Node names use Slurm's hostlist format, CPU sets Linux's cpulist format; ClusterShell parses and
formats both.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSet, RangeSetException


@cache
def expand(names: str) -> tuple[str, ...]:
    """Return every name in a range, in order.

    Raises:
        ValueError: the text is not a name range.
    """
    try:
        # No resolver: "@x" would otherwise look up ClusterShell's groups on this machine.
        return tuple(NodeSet(names, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise ValueError(str(error)) from error


@cache
def cpus(text: str) -> frozenset[int]:
    """Return the CPU numbers of a list such as ``0-3,56-59`` (Linux's cpulist format).

    Raises:
        ValueError: the text is not a list of CPU numbers.
    """
    if not text:
        return frozenset()
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
