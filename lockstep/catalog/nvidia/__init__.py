"""The NVIDIA stack: one module per packaging with one ``PACKAGING``, and version tables.

``compatibility`` has the vendor's compatibility tables, ``xid`` the driver's error numbers.
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
    """Names may contain {cuda} (12-4: one package per CUDA release), {cuda_soname} (12; 11.0 for
    all of CUDA 11), {driver_cuda} (the newest CUDA major that the driver supports: 13) and
    {branch} (-550, for branches with separate packages)."""
    version: str = "{version}-*"
    """Package version for an upstream version, as a pattern (apt_preferences(5))."""
    other_versions: Mapping[str, str] = field(default_factory=dict)
    """Package -> its pattern if it differs from ``version``; may contain {series} (550)."""
    brought: tuple[str, ...] = ()
    """Packages that these depend on with an exact version: they are only pinned, so that apt does
    not select a newer version."""


@dataclass(frozen=True)
class Packaging:
    """The packages of the stack in one archive. Parts that it does not have are absent."""

    parts: Mapping[str, Part]
    """Part (a field of ``software.nvidia``; modules_open, modules_proprietary, cuda_runtime,
    cuda_toolkit) -> its packages."""

    from_archive: frozenset[str] = frozenset()
    """Parts that the distribution's archive provides; the others need a repository."""

    def packages(
        self, part: str, version: str | None, driver: str, cuda: tuple[str, ...]
    ) -> Iterator[tuple[str, str]]:
        """Yield (package, version pattern) of a part.

        Args:
            part: a key of ``parts``.
            version: upstream version; None for the parts of CUDA, which depend on the releases.
            driver: upstream version of the driver.
            cuda: CUDA releases of the set, such as 12.4.
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
        """Yield (package, version pattern) of a part's exact dependencies."""
        entry = self.parts[part]
        for name in entry.brought:
            yield name, entry.version.format(version=version)

    def every_package(self, driver: str, cuda: tuple[str, ...]) -> tuple[str, ...]:
        """Return all packages of all parts."""
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
    """Return a packaging by its module name; raises ModuleNotFoundError for an unknown one."""
    packaging: Packaging = importlib.import_module(f"{__name__}.{name}").PACKAGING
    return packaging
