"""Operating systems: one module per release, each with one ``RELEASE``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Release:
    """What differs between releases, as data: package names, versions that change behaviour."""

    id: str
    """``ID`` of os-release(5)."""
    version_id: str
    """``VERSION_ID`` of os-release(5), without the point release where a family has them."""
    codename: str
    locales: tuple[str, ...]
    """Packages that make locales other than glibc's built-in ones."""
    locale_file: str
    """File that holds LANG: locale.conf(5), or Debian's older /etc/default/locale."""
    chrony_leap_seconds: str
    """Line of chrony.conf(5) that says where leap seconds are listed."""
    slurm: tuple[int, int]
    """Slurm's release series in the archive, (24, 11): some keys came or went with a series."""
    slurm_mig: tuple[str, ...] = ()
    """Packages with which slurmd finds MIG devices (AutoDetect=nvml); none: it cannot."""
    engines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Container engine -> packages that give it."""
    without_cdi: tuple[str, ...] = ()
    """Engines whose version in the archive takes no CDI devices."""
    family: Literal["debian", "rhel"] = "debian"
    """Whose paths, unit names and package manager it has."""
    boot_loader: Literal["grub_drop_in", "grubby"] = "grub_drop_in"
    """How kernel arguments reach the next boot (roles/boot_loader.py)."""
    kernel_headers: str = "linux-headers-{release}"
    """Package with what modules of a kernel are built with; release as uname(1) says it."""
    upgrade_timers: tuple[str, ...] = ("apt-daily-upgrade.timer", "apt-daily.timer")
    """Units that upgrade packages on their own."""
    capabilities: tuple[str, ...] | None = None
    """What can be set up on it so far, by role; None: everything. The rest is refused."""

    @property
    def name(self) -> str:
        """The name in a description: ``debian_13``."""
        return f"{self.id}_{self.version_id}".replace(".", "_")

    @property
    def every_package(self) -> tuple[str, ...]:
        """Packages listed here, sorted; roles declare the others."""
        groups = self.engines.values()
        listed = {name for names in groups for name in names}
        return tuple(sorted(listed | set(self.locales) | set(self.slurm_mig)))

    def can(self, capability: str) -> bool:
        """Say whether a role can be applied to this release."""
        return self.capabilities is None or capability in self.capabilities

    def version_of(self, seen: str) -> str:
        """Return a node's VERSION_ID in the form of ours: "9.4" is "9" in the RHEL family."""
        return seen.partition(".")[0] if self.family == "rhel" else seen


def known() -> tuple[str, ...]:
    """Return the names of all releases, sorted."""
    return tuple(
        sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    )


def load(name: str) -> Release:
    """Return a release by its file name; raises ModuleNotFoundError for an unknown one."""
    release: Release = importlib.import_module(f"{__name__}.{name}").RELEASE
    return release
