"""A node's NVIDIA driver: its packages, and its modules for the running and the next kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kernel:
    """A kernel that was found on a node."""

    release: str
    """The kernel's release, as printed by ``uname -r``."""
    headers: bool
    """Whether the headers for building modules are installed."""
    module: str = ""
    """Version and flavour of NVIDIA's module on disk, ``550.163.01 (open)``; empty if none."""


@dataclass(frozen=True)
class BootKernels:
    """The kernel that a node is running, and the kernels that it may boot next."""

    running: Kernel
    next: tuple[Kernel, ...]
    """The kernel that boots next; if it is unknown, all kernels in the boot menu."""
    unknown: str = ""
    """Why it is unknown which kernel boots next; empty if it is known."""

    @property
    def every(self) -> tuple[Kernel, ...]:
        """The running kernel, then the kernels that may boot next."""
        return (self.running, *(one for one in self.next if one.release != self.running.release))


@dataclass(frozen=True)
class Driver:
    """The driver that is planned for a node."""

    version: str
    """Upstream version."""
    packages: Mapping[str, str]
    """Package -> version pattern."""
    flavour: str | None = None
    """``open`` or ``proprietary`` modules; None if the machine does not boot its own kernel."""
    replaced: tuple[str, ...] = ()
    """Packages of the other flavour, which apt would leave installed."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Declared parameters of the kernel module, named as in /proc, without the prefix NVreg_."""

    def lacking(self, kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
        """Return the kernels for which the planned module is not on disk."""
        wanted = f"{self.version} ({self.flavour})"
        return tuple(one for one in kernels if self.flavour and one.module != wanted)


def header_packages(name: str, kernels: Iterable[Kernel]) -> dict[str, str]:
    """Return the header packages to install for building modules: package -> kernel.

    Args:
        name: the name of the package, with {release} for the kernel; empty if nothing is built.
        kernels: the kernels for which modules are missing.
    """
    lacking = [one for one in kernels if name and not one.headers]
    return {name.format(release=one.release): one.release for one in lacking}
