"""All changes of the catalogue, and the choice among them."""

from __future__ import annotations

from collections.abc import Collection

from tests.lab.changes import Change, files, kernel_network, packages, programs, slurm, units

CHANGES: tuple[Change, ...] = (
    *files.CHANGES,
    *kernel_network.CHANGES,
    *packages.CHANGES,
    *programs.CHANGES,
    *units.CHANGES,
    *slurm.CHANGES,
)
SLOWER = frozenset({"program", "login"})
"""Domains that are not read by every check."""


def chosen(domains: Collection[str] = (), first: int = 0, step: int = 1) -> list[Change]:
    """Return the changes of some domains, or of all that every check reads.

    Args:
        domains: names of domains; empty: all but the slower ones.
        first: number of the first change to return, from 0.
        step: every ``step``-th change is returned.
    """
    wanted = domains or {change.domain for change in CHANGES} - SLOWER
    return [change for change in CHANGES if change.domain in wanted][first::step]


def sample() -> list[Change]:
    """Return the first change of each domain that every check reads."""
    first: dict[str, Change] = {}
    for change in chosen():
        first.setdefault(change.domain, change)
    return list(first.values())
