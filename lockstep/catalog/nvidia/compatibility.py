"""Tables of compatible versions, from NVIDIA's documentation; docs/nvidia.md shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Modules = Literal["open", "proprietary"]


@dataclass(frozen=True)
class Architecture:
    """Driver branches and CUDA releases that support a GPU architecture."""

    modules: tuple[Modules, ...]
    first_branch: int
    first_cuda: str
    """First CUDA release that supports the architecture."""
    last_branch: int | None = None
    """Last driver branch that supports the architecture; None if support has not ended."""
    last_cuda: int | None = None
    """Last CUDA major version that supports the architecture; None if support has not ended."""

    @property
    def cuda(self) -> str:
        """Supported CUDA releases, as text."""
        last = "or later" if self.last_cuda is None else f"to {self.last_cuda}.x"
        return f"{self.first_cuda} {last}"

    def has_cuda(self, release: str) -> bool:
        """Return whether a CUDA release supports the architecture."""
        return at_least(release, self.first_cuda) and (
            self.last_cuda is None or numbers(release)[0] <= self.last_cuda
        )


ARCHITECTURES: Mapping[str, Architecture] = {
    "volta": Architecture(("proprietary",), 396, "9.0", last_branch=580, last_cuda=12),
    "turing": Architecture(("open", "proprietary"), 410, "10.0"),
    "ampere": Architecture(("open", "proprietary"), 450, "11.0"),
    "ada": Architecture(("open", "proprietary"), 525, "11.8"),
    "hopper": Architecture(("open", "proprietary"), 525, "11.8"),
    "blackwell": Architecture(("open",), 570, "12.8"),
}
"""Sources: NVIDIA's blog and README on open kernel modules (Turing or later; Blackwell: open
only); NVIDIA data center drivers, "CUDA Toolkit, Driver, and Architecture Matrix" (first and last
CUDA, last branch)."""

OPEN_MODULES_FROM = 515
"""First branch with open kernel modules (NVIDIA, open-gpu-kernel-modules)."""

CUDA_MINIMUM_DRIVER: Mapping[str, str] = {
    "11": "450.80.02",
    "12": "525.60.13",
    "13": "580.65.06",
}
"""CUDA major version -> oldest driver that runs its programs (CUDA release notes, minor version
compatibility). Newer drivers also run programs built for older major versions."""

CUDA_RELEASES: Mapping[str, str] = {
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
}
"""CUDA release -> its bundled driver version (CUDA release notes, toolkit driver versions)."""

UNVERSIONED_FROM = 580
"""First branch whose fabric manager, NSCQ and IMEX packages have no branch in their names
(NVIDIA/gpu-driver-container, install.sh)."""

DCGM_CUDA_13_FROM = "4.4.0"
"""First DCGM version for CUDA 13 (drivers of branch 580 or later); source: DCGM's changelog."""

CONTAINER_TOOLKIT_FROM = "1.18.0"
"""First toolkit version with nvidia-cdi-refresh.service, which updates the CDI specification after
driver changes."""

DCGM_FROM = "4.0.0"
"""First DCGM version with the CUDA version in package names (datacenter-gpu-manager-4-cuda12)."""


def branch(driver: str) -> int:
    """Return the branch of a driver version: ``550.163.01`` -> ``550``."""
    return numbers(driver)[0]


def cuda_major_of(driver: str) -> str:
    """Return the newest CUDA major version that a driver supports: ``550.163.01`` -> ``12``."""
    majors = [major for major, oldest in CUDA_MINIMUM_DRIVER.items() if at_least(driver, oldest)]
    return majors[-1] if majors else next(iter(CUDA_MINIMUM_DRIVER))


def package_suffix(driver: str) -> str:
    """Return the package name suffix for a driver's branch: ``-550``; empty from 580 on."""
    return "" if branch(driver) >= UNVERSIONED_FROM else f"-{branch(driver)}"


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as a tuple of numbers for comparison."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def at_least(version: str, minimum: str) -> bool:
    """Return whether a version is at least the minimum."""
    return numbers(version) >= numbers(minimum)
