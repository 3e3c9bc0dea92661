"""A domain of a node's fingerprint over time, as the history keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Version:
    """One state of a domain, and the checks that had it."""

    since: float
    """Unix time of the first check with it."""
    until: float
    """Unix time of the last check with it."""
    before: float | None
    """Unix time of the check before the first, which had another state; None if that is not known,
    because there was none or because it was read in another way."""
    sums: str | None
    """The hashes of its buckets, one text; None if it could not be read."""
    touched: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """Object with an identity of the node -> hash, hash with identities replaced, and bucket."""
    count: int = 0
    """Number of objects."""

    def changed(self, other: Version) -> list[str]:
        """Return the touched objects that another version has otherwise or lacks."""
        names = sorted(self.touched.keys() | other.touched.keys())
        return [name for name in names if not self._agrees(other, name)]

    def equals(self, other: Version) -> bool:
        """Return whether another version has the same objects: either hash of each is equal."""
        return self.sums == other.sums and not self.changed(other)

    def _agrees(self, other: Version, name: str) -> bool:
        mine, its = self.touched.get(name), other.touched.get(name)
        return mine is not None and its is not None and agree(mine, its)


Versions: TypeAlias = Mapping[tuple[str, str], Sequence[Version]]
"""Node and domain -> its states, the newest first."""


def agree(one: tuple[str, str, str], other: tuple[str, str, str]) -> bool:
    """Return whether two hashes are of equal objects, as they are or with identities replaced."""
    return one[0] == other[0] or one[1] == other[1]
