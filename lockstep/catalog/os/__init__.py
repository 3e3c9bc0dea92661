"""Operating systems: one module per release, each with one ``RELEASE``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """What differs between releases, as data: package names, versions that change behaviour."""

    id: str
    """``ID`` of os-release(5)."""
    version_id: str
    """``VERSION_ID`` of os-release(5)."""
    codename: str
    packages: Mapping[str, tuple[str, ...]]
    """Capability (a role's name) -> packages that give it."""
    locales: tuple[str, ...]
    """Packages that make locales other than glibc's built-in ones."""
    locale_file: str
    """File that holds LANG: locale.conf(5), or Debian's older /etc/default/locale."""
    chrony_leap_seconds: str
    """Line of chrony.conf(5) that says where leap seconds are listed."""
    slurm: tuple[int, int]
    """Slurm's release series in the archive, (24, 11): some keys came or went with a series."""

    @property
    def every_package(self) -> tuple[str, ...]:
        """Every package that any node of a cluster may get, sorted."""
        listed = {name for names in self.packages.values() for name in names}
        return tuple(sorted(listed | set(self.locales)))


def known() -> tuple[str, ...]:
    """Return the names of all releases, sorted."""
    return tuple(
        sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    )


def load(name: str) -> Release:
    """Return a release by its file name; raises ModuleNotFoundError for an unknown one."""
    release: Release = importlib.import_module(f"{__name__}.{name}").RELEASE
    return release
