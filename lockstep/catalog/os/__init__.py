"""Operating systems: one module per release, each with one ``RELEASE``."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

CGROUP_V2_FROM = (22, 5)
"""First series of Slurm with the plugin cgroup/v2 (SchedMD's release notes of 22.05). The packages
of 21.08 in Ubuntu 22.04 contain cgroup_v1.so only."""


ON_ARM64 = {
    "/usr/lib/x86_64-linux-gnu/slurm-wlm/gpu_nvml.so": (
        "/usr/lib/aarch64-linux-gnu/slurm-wlm/gpu_nvml.so"
    ),
    "/usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so": (
        "/usr/lib/aarch64-linux-gnu/slurm/spank_pyxis.so"
    ),
}
"""Path on x86_64 -> path on arm64: Debian's folders for libraries (Debian policy, 9.1.1; the
architecture tuple of arm64 is aarch64-linux-gnu)."""


@dataclass(frozen=True)
class Release:
    """Data that differs between releases: names of packages and files, and versions of software."""

    id: str
    """``ID`` of os-release(5)."""
    version_id: str
    """``VERSION_ID`` of os-release(5), without the point release in the RHEL family."""
    locales: tuple[str, ...]
    """Packages for locales that are not built into glibc."""
    locale_file: str
    """File that sets LANG: locale.conf(5), or Debian's older /etc/default/locale."""
    chrony_leap_seconds: str
    """Line of chrony.conf(5) that sets the source of leap seconds."""
    slurm: tuple[int, int]
    """Slurm's release series in the archive, such as (24, 11). Configuration keys depend on it."""
    slurm_nvml: tuple[str, ...] = ()
    """Packages that let slurmd detect GPUs (AutoDetect=nvml); empty if there are none."""
    engines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Container engine -> its packages."""
    without_cdi: tuple[str, ...] = ()
    """Container engines whose version in the release's archive does not support CDI."""
    family: Literal["debian", "rhel"] = "debian"
    """The family determines paths, unit names and the package manager."""
    selinux: bool = False
    """Whether the release runs SELinux, with the targeted policy (``lockstep.catalog.selinux``)."""
    boot_loader: Literal["grub_drop_in", "grubby"] = "grub_drop_in"
    """How to set kernel arguments for the next boot (roles/boot_loader.py)."""
    rebuild_initramfs: str = "update-initramfs -u -k all"
    """Command that rebuilds the initramfs of every kernel."""
    kernel_headers: str = "linux-headers-{release}"
    """Package with the kernel headers; {release} stands for the output of `uname -r`."""
    upgrade_packages: tuple[str, ...] = ("unattended-upgrades",)
    """Packages that upgrade other packages automatically (os.automatic_upgrades)."""
    upgrade_timers: tuple[str, ...] = ("apt-daily-upgrade.timer", "apt-daily.timer")
    """Timers that start them, or look for upgrades."""
    other_upgrade_timers: tuple[str, ...] = ()
    """Timers that upgrade packages without reading the configuration; they stay masked."""
    network_managers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Program that may keep the interfaces (docs/network.md) -> its packages; the usual one first.

    Only packages whose installation changes no interface. The program of the installed system is
    never installed: it is there.
    """
    boots_without_required_link: bool = True
    """Whether systemd-networkd-wait-online ends if none of networkd's links is required.

    Before systemd 255 it waits for two minutes, and then the unit has failed (seen with 252).
    """
    dkms_reads_settings: bool = True
    """Whether dkms(8) reads framework.conf.d, which says where the key is that signs modules.

    It does from version 3.0 on (dkms 3.0.10, 3.0.11 and 3.2.2, function prepare_signing).
    """
    supported_roles: tuple[str, ...] | None = None
    """Roles that Lockstep supports on this release; None if it supports all roles."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Debian's name of a path, program or unit -> its name here. Roles declare Debian's names."""
    not_verified: tuple[str, ...] = ()
    """What nobody has read in an archive or seen on a machine; ``lockstep plan`` prints it."""

    @property
    def name(self) -> str:
        """The name of the release in a description: ``debian_13``."""
        return f"{self.id}_{self.version_id}".replace(".", "_")

    @property
    def every_package(self) -> frozenset[str]:
        """The packages named in this release's data; roles declare all others."""
        return frozenset(self.locales).union(
            self.slurm_nvml,
            self.upgrade_packages,
            *self.engines.values(),
            *self.network_managers.values(),
        )

    def local(self, text: str) -> str:
        """Return a text, such as a path or a command, with this release's names."""
        if not self.names:
            return text
        # The longest name first; a name inside a longer word is not meant.
        longest = sorted(self.names, key=len, reverse=True)
        found = "|".join(map(re.escape, longest))
        pattern = rf"(?<![\w.-])({found})(?![\w-])"
        return re.sub(pattern, lambda match: self.names[match[1]], text)

    def on(self, architecture: str) -> Release:
        """Return the release with the paths that it has on an architecture."""
        if architecture == "x86_64" or self.family != "debian":
            return self
        return replace(self, names={**self.names, **ON_ARM64})

    def supports(self, role: str) -> bool:
        """Return whether a role is supported on this release."""
        return self.supported_roles is None or role in self.supported_roles

    def version_of(self, seen: str) -> str:
        """Return a node's VERSION_ID without the point release in the RHEL family: 9.4 -> 9."""
        return seen.partition(".")[0] if self.family == "rhel" else seen


@cache
def known() -> tuple[str, ...]:
    """Return the names of all releases, sorted."""
    return tuple(
        sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    )


def of_debian(name: str) -> str:
    """Return Debian's name of a path or unit, with which rules name their causes."""
    return _of_debian().get(name, name)


@cache
def _of_debian() -> dict[str, str]:
    return {own: name for release in map(load, known()) for name, own in release.names.items()}


def load(name: str) -> Release:
    """Return a release by its module name; raises ModuleNotFoundError for an unknown one."""
    release: Release = importlib.import_module(f"{__name__}.{name}").RELEASE
    return release


def find(name: str) -> Release | None:
    """Return a release by its module name; None for an unknown one."""
    return load(name) if name in known() else None
