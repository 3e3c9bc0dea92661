"""NVIDIA's stack: one module per packaging with one ``PACKAGING``, and what fits together.

``compatibility`` holds the vendor's tables; ``xid`` what its error numbers mean.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lockstep.catalog.nvidia import compatibility


@dataclass(frozen=True)
class Part:
    """The packages of one part of the stack in one archive."""

    names: tuple[str, ...]
    """May hold {cuda} (12-4: one package per CUDA release), {cuda_soname} (12; 11.0 for all of
    CUDA 11), {driver_cuda} (the newest CUDA major that the driver runs: 13) and {branch} (-550,
    where a branch had packages of its own)."""
    version: str = "{version}-*"
    """Package version of an upstream version, as a pattern (apt_preferences(5))."""
    other_versions: Mapping[str, str] = field(default_factory=dict)
    """Package -> its pattern, where it is another one; may hold {series} (550)."""
    brought: tuple[str, ...] = ()
    """Packages that come with these by an exact dependency: they are pinned, so that apt does not
    prefer a newer one, and nothing else is asked of them."""


@dataclass(frozen=True)
class Packaging:
    """How one archive cuts the stack into packages. A part it does not have is absent."""

    parts: Mapping[str, Part]
    """Part (a field of ``software.nvidia``; modules_open, modules_proprietary, cuda_runtime,
    cuda_toolkit) -> its packages."""

    from_archive: frozenset[str] = frozenset()
    """Parts that the distribution's own archive holds; the others need a repository."""

    def packages(
        self, part: str, version: str | None, driver: str, cuda: tuple[str, ...]
    ) -> Iterator[tuple[str, str]]:
        """Yield (package, version as a pattern) of a part.

        Args:
            part: a key of ``parts``.
            version: upstream version; None for the parts of CUDA, which follow the releases.
            driver: upstream version of the driver.
            cuda: CUDA releases of the set, 12.4.
        """
        entry = self.parts[part]
        words = {
            "driver_cuda": compatibility.cuda_major_of(driver),
            "branch": compatibility.package_suffix(driver),
        }
        for name in entry.names:
            if version is not None:
                pattern = entry.other_versions.get(name, entry.version)
                yield (
                    name.format(**words),
                    pattern.format(version=version, series=compatibility.branch(version)),
                )
                continue
            for release in cuda:
                soname = "11.0" if release.startswith("11.") else release.partition(".")[0]
                filled = name.format(cuda=release.replace(".", "-"), cuda_soname=soname, **words)
                yield filled, entry.version.format(version=release)

    def pins(self, part: str, version: str) -> Iterator[tuple[str, str]]:
        """Yield (package, version as a pattern) of what a part brings along."""
        entry = self.parts[part]
        for name in entry.brought:
            yield name, entry.version.format(version=version)

    def every_package(self, driver: str, cuda: tuple[str, ...]) -> tuple[str, ...]:
        """Return every package of every part."""
        return tuple(
            sorted(
                {
                    name
                    for part in self.parts
                    for name, _ in self.packages(
                        part, None if part.startswith("cuda_") else "0", driver, cuda
                    )
                }
            )
        )


def load(name: str) -> Packaging:
    """Return a packaging by its file name; raises ModuleNotFoundError for an unknown one."""
    packaging: Packaging = importlib.import_module(f"{__name__}.{name}").PACKAGING
    return packaging
