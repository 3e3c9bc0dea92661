"""What asks the repositories of a system: apt or dnf, each with a root of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lockstep.mirror.needs import Kind

ARCHIVE = "archive"
"""The name of the distribution's own archive among the sources."""


@dataclass(frozen=True)
class Source:
    """One file that lists repositories: sources.list(5), or the repositories of dnf.conf(5)."""

    name: str
    """The name of the repository, or ``ARCHIVE``."""
    text: str
    where: str
    """The address of the repository, or the path of the file that lists the archive."""
    suffix: str = ".sources"
    key: str = ""
    """The key of a repository of RPMs, ASCII-armored; sources.list(5) contains that of others."""


@dataclass(frozen=True)
class Listing:
    """The signed list of a repository, or of one component of a suite, and the files it names."""

    source: str
    """The name of the repository, or ``ARCHIVE`` (then the folder gets its name from ``uri``)."""
    uri: str
    """The address of the repository, with a final slash."""
    suite: str = "/"
    component: str = ""
    indexes: Mapping[str, str] = field(default_factory=dict)
    """Path of an index below the address -> its SHA-256."""
    by_hash: Mapping[str, str] = field(default_factory=dict)
    """Path of a second name of an index -> the path of the index."""
    lists: Mapping[str, bytes] = field(default_factory=dict)
    """Path of a signed list below the address, or of its signature -> its content."""


@dataclass(frozen=True)
class PackageFile:
    """One package file."""

    package: str
    version: str
    architecture: str
    uri: str
    repository: str
    """The address of its repository, with a final slash."""
    path: str
    """The path of the file below that address."""
    size: int
    """In bytes."""
    sha256: str


class Root(Protocol):
    """A root of a package manager for one system, in a folder that later runs use again."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The declared repositories, and the archive if a file lists it."""

    @property
    def listings(self) -> tuple[Listing, ...]:
        """The lists of all repositories, as ``update`` has read them."""

    def update(self) -> None:
        """Read the lists of every repository.

        Raises:
            MirrorError: a list cannot be read, or its signature is not that of the key.
        """

    def available(self, packages: Iterable[str]) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return package -> version -> the names of the sources that have it, newest first."""

    def names(self, prefix: str) -> tuple[str, ...]:
        """Return the packages whose names begin with a text; kernel headers with versions."""

    def streams(self) -> dict[str, tuple[str, ...]]:
        """Return module stream (``nvidia-driver:580-open``) -> the sources that have it."""

    def resolve(self, kind: Kind, kernels: Sequence[str] = ()) -> tuple[PackageFile, ...]:
        """Return the files of a kind's packages, with everything that they depend on.

        Args:
            kind: the kind of node.
            kernels: kernels whose headers are included, if the kind builds modules.

        Raises:
            MirrorError: a package does not exist, or the dependencies have no solution.
        """

    def fetch(self, wanted: Mapping[str, tuple[Path, str]]) -> dict[str, str]:
        """Fetch files and verify them.

        Args:
            wanted: address -> where to put the file, and its SHA-256.

        Returns:
            Address -> reason, for each file that was not fetched.
        """


def by_version(
    rows: Iterable[tuple[str, str, str]],
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return package -> version -> the names of its sources, each once and in the given order.

    Args:
        rows: package, version and the name of a source.
    """
    found: dict[str, dict[str, dict[str, None]]] = {}
    for package, version, source in rows:
        found.setdefault(package, {}).setdefault(version, {})[source] = None
    return {
        package: {version: tuple(names) for version, names in versions.items()}
        for package, versions in found.items()
    }
