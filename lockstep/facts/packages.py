"""A question about packages: installed versions, holds, and whether dpkg was interrupted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.question import Question, Taken


@dataclass(frozen=True)
class PackageState:
    """The state of the requested packages."""

    installed: dict[str, str]
    """Package -> version, for packages that are completely installed."""
    interrupted: bool
    """Whether dpkg was interrupted, so that ``dpkg --configure -a`` must run first."""
    held: frozenset[str] = frozenset()
    """Packages on hold, which apt does not change (apt-mark(8))."""
    unfinished: frozenset[str] = frozenset()
    """Packages whose installation dpkg began but did not finish."""


READINGS = ("packages", "packages.broken", "packages.held", "packages.interrupted")


def package_state(names: Iterable[str]) -> Question[PackageState]:
    """Ask for the state of these packages."""
    asked = frozenset(names)

    def answer(taken: Taken) -> PackageState:
        broken = asked.intersection(taken["packages.broken"])
        versions = taken["packages"]
        return PackageState(
            {name: versions[name] for name in sorted(asked - broken) if name in versions},
            taken["packages.interrupted"],
            asked.intersection(taken["packages.held"]),
            broken,
        )

    return Question("packages", READINGS, answer)
