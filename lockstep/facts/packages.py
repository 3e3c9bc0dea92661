"""Which versions of packages are installed, and whether dpkg was interrupted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.facts.reading import Question, Taken


@dataclass(frozen=True)
class PackageState:
    """Installed versions of the packages asked for."""

    installed: dict[str, str]
    """Package -> version, for those that are wholly installed."""
    interrupted: bool
    """dpkg was stopped in the middle; ``dpkg --configure -a`` is due before anything else."""
    held: frozenset[str] = frozenset()
    """Those of them that apt leaves alone (apt-mark(8), hold)."""
    unfinished: frozenset[str] = frozenset()
    """Those of them that dpkg began with and did not finish."""


READINGS = ("packages", "packages.broken", "packages.held", "packages.interrupted")


def package_state(names: Iterable[str]) -> Question[PackageState]:
    """Ask for the state of some packages."""
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
