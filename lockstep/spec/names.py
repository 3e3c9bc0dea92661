"""Names of nodes and sets of CPUs in the operators' notation: ``worker[0001-2000]``, ``0-3,56``.

Slurm's hostlist notation, read and written by ClusterShell.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSet, RangeSetException


@cache
def expand(names: str) -> tuple[str, ...]:
    """Return every name of a range, in order.

    Raises:
        ValueError: the text is not a range of names.
    """
    try:
        # Without a resolver: "@x" would ask this machine's own group files.
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
        raise ValueError(f"a number below 0: {text!r}")
    return numbers


def cpulist(numbers: Iterable[int]) -> str:
    """Return CPU numbers in Linux's cpulist format: ``0-3,56-59``; "" for none."""
    return _written(frozenset(numbers))


@cache
def _written(numbers: frozenset[int]) -> str:
    return str(RangeSet(",".join(map(str, sorted(numbers))))) if numbers else ""
