"""The driver of a node: packages, and kernel modules for the kernels that it runs and boots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kernel:
    """One kernel of a node, as the node showed it."""

    release: str
    """As uname(1) says it."""
    headers: bool
    """What modules are built with is there."""
    module: str = ""
    """Version and flavour of NVIDIA's module on disk, ``550.163.01 (open)``; "" for none."""


@dataclass(frozen=True)
class BootKernels:
    """The kernels that count on a node."""

    running: Kernel
    next: tuple[Kernel, ...]
    """The one that boots next; all of the menu, where it cannot be told which."""
    unknown: str = ""
    """Why it cannot be told; "" where it can."""

    @property
    def every(self) -> tuple[Kernel, ...]:
        """The one that runs, then those that may boot next."""
        return (self.running, *(one for one in self.next if one.release != self.running.release))


@dataclass(frozen=True)
class Driver:
    """The driver as planned."""

    version: str
    """Upstream."""
    packages: Mapping[str, str]
    """Package -> version as a pattern."""
    flavour: str | None = None
    """``open`` or ``proprietary`` modules; None: the kernel is not the machine's own."""
    replaced: tuple[str, ...] = ()
    """Packages of the other flavour: apt would leave both installed."""
    headers: str = ""
    """Package of a kernel's headers; holds {release}."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Declared parameters of the kernel module, as it shows them: without NVreg_."""

    def lacking(self, kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
        """Return the kernels that would not load the planned module."""
        wanted = f"{self.version} ({self.flavour})"
        return tuple(one for one in kernels if self.flavour and one.module != wanted)

    def header_packages(self, kernels: Iterable[Kernel]) -> dict[str, str]:
        """Return package -> kernel, of the headers without which a module cannot be built."""
        return {
            self.headers.format(release=one.release): one.release
            for one in self.lacking(kernels)
            if not one.headers
        }
