"""Tables of compatible versions, from NVIDIA's documentation; docs/nvidia.md shows them.

A new release is one row. Each row has its source and the day on which it was looked up. A row that
was not read in a document of NVIDIA is not verified, and ``lockstep plan`` says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Modules = Literal["open", "proprietary"]
LOOKED_UP = "2026-11-24"


@dataclass(frozen=True)
class Origin:
    """Where a row comes from."""

    source: str
    looked_up: str = LOOKED_UP
    verified: bool = True
    """False: the source is no document of NVIDIA."""


MATRIX = Origin('NVIDIA data center drivers, "CUDA Toolkit, Driver, and Architecture Matrix"')


@dataclass(frozen=True)
class Architecture:
    """Driver branches and CUDA releases that support a GPU architecture."""

    modules: tuple[Modules, ...]
    first_branch: int
    """Not compared with the release notes of that branch."""
    first_cuda: str
    """First CUDA release that supports the architecture."""
    last_branch: int | None = None
    """Last driver branch that supports the architecture; None if support has not ended."""
    last_cuda: int | None = None
    """Last CUDA major version that supports the architecture; None if support has not ended."""
    origin: Origin = MATRIX

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
"""Kernel modules: NVIDIA/open-gpu-kernel-modules, README (Turing or later), and NVIDIA's blog on
open kernel modules (Blackwell: open only)."""

OPEN_MODULES_FROM = 515
"""First branch with open kernel modules (NVIDIA, open-gpu-kernel-modules)."""

DMA_BUF_FROM = 515
"""First branch whose open modules share GPU memory by DMA-BUF, with Linux 5.12 or later and CUDA
11.7; NVIDIA recommends it over nvidia_peermem (NVIDIA GPU operator, "GPUDirect RDMA and GPUDirect
Storage")."""

PEERMEM_FROM = 470
"""First branch with the module nvidia_peermem (the same page, release 1.8)."""

NVIDIA_FS_OPEN_ONLY_FROM = "2.17.5"
"""First nvidia_fs that works with the open modules only (NVIDIA/gds-nvidia-fs at 10a565d,
ChangeLog; NVIDIA GPU operator, "GPUDirect RDMA and GPUDirect Storage")."""

GDRCOPY_OPEN_FROM, GDRCOPY_OPEN_DRIVER = "2.4.3", 545
"""First GDRCopy that recognizes the open modules of this driver branch and later ones when it is
built (NVIDIA/gdrcopy at 00155e9, CHANGELOG)."""

OPEN_BY_DEFAULT_FROM = 560
"""First branch whose installers choose open kernel modules by default (NVIDIA's blog, "NVIDIA
Transitions Fully Towards Open-Source GPU Kernel Modules")."""


@dataclass(frozen=True)
class Branch:
    """One branch of the data center driver."""

    kind: Literal["long-term support", "production", "new feature", ""]
    cuda: str
    """Newest CUDA release that the driver carries, as nvidia-smi prints it; "": not known."""
    origin: Origin
    ends: str = ""
    """Month in which NVIDIA's support ends, ``2028-06``; "": none is published."""
    supported: bool = False
    """Whether NVIDIA's newest list of supported branches has it."""


def _listed(edition: str) -> Origin:
    title = "Supported Drivers and CUDA Toolkit Versions"
    return Origin(f'NVIDIA data center drivers {edition}, "{title}"')


ENDED = _listed("580")
"""This edition lists the branches that had reached their end of life in 2025."""
FORUM = Origin("NVIDIA developer forum, Current graphics driver releases")
PART_KNOWN = Origin(
    "CUDA Toolkit release notes, which give only the driver's version", verified=False
)

BRANCHES: Mapping[int, Branch] = {
    470: Branch("long-term support", "11.4", PART_KNOWN),
    495: Branch("", "11.5", ENDED),
    510: Branch("", "11.6", ENDED),
    515: Branch("", "11.7", ENDED),
    520: Branch("", "11.8", PART_KNOWN),
    525: Branch("", "12.0", ENDED),
    530: Branch("", "12.1", PART_KNOWN),
    535: Branch("long-term support", "12.2", _listed("615"), ends="2026-06"),
    545: Branch("", "12.3", PART_KNOWN),
    550: Branch("", "12.4", ENDED),
    555: Branch("", "12.5", PART_KNOWN),
    560: Branch("", "12.6", ENDED),
    565: Branch("", "12.7", ENDED),
    570: Branch("production", "12.8", ENDED, ends="2026-02"),
    575: Branch("", "12.9", ENDED),
    580: Branch("long-term support", "13.0", _listed("620"), ends="2028-06", supported=True),
    590: Branch("new feature", "13.1", FORUM),
    595: Branch("production", "13.2", _listed("620"), ends="2027-03", supported=True),
    610: Branch("new feature", "13.3", _listed("615"), ends="2026-08"),
    620: Branch("long-term support", "", _listed("620"), ends="2029-09", supported=True),
}
"""Branch -> what is known of it. CUDA is the version that nvidia-smi of the branch prints."""

RELEASE_NOTES = Origin("CUDA Toolkit release notes, toolkit and corresponding driver versions")

CUDA_MINIMUM_DRIVER: Mapping[str, str] = {
    "11": "450.80.02",
    "12": "525.60.13",
    "13": "580.65.06",
}
"""CUDA major version -> oldest driver that runs its programs (CUDA release notes, minor version
compatibility). Newer drivers also run programs built for older major versions."""


@dataclass(frozen=True)
class Cuda:
    """One CUDA release."""

    driver: str
    """The driver that it was released with."""
    origin: Origin = RELEASE_NOTES


CUDA_RELEASES: Mapping[str, Cuda] = {
    "11.4": Cuda("470.42.01"),
    "11.5": Cuda("495.29.05"),
    "11.6": Cuda("510.39.01"),
    "11.8": Cuda("520.61.05"),
    "12.0": Cuda("525.60.13"),
    "12.1": Cuda("530.30.02"),
    "12.2": Cuda("535.54.03"),
    "12.3": Cuda("545.23.06"),
    "12.4": Cuda("550.54.14"),
    "12.5": Cuda("555.42.02"),
    "12.6": Cuda("560.28.03"),
    "12.8": Cuda("570.26"),
    "12.9": Cuda("575.51.03"),
    "13.0": Cuda("580.65.06"),
    "13.1": Cuda("590.44.01"),
    "13.2": Cuda("595.45.04"),
    "13.3": Cuda(
        "610.43.02",
        Origin("a third-party document: VMAFx, decision record 0738", verified=False),
    ),
}
"""CUDA release -> its bundled driver."""

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


def runs(driver: str, release: str) -> bool:
    """Return whether a driver runs programs of a CUDA release (minor version compatibility)."""
    return at_least(driver, CUDA_MINIMUM_DRIVER.get(release.partition(".")[0], "0"))


def is_newer(release: str) -> bool:
    """Return whether a CUDA release of a known major version is newer than the table."""
    known = [numbers(one) for one in CUDA_RELEASES if one.split(".")[0] == release.split(".")[0]]
    return bool(known) and numbers(release) > max(known)


def nearest_cuda(wanted: Iterable[str], fits: Callable[[str], bool]) -> str:
    """Return the CUDA release in the table that fits and is nearest to the newest wanted one.

    Of two equally near ones, the newer. Returns "" if none fits.
    """
    order = [*CUDA_RELEASES]
    places = [order.index(one) for one in wanted if one in CUDA_RELEASES] or [len(order)]
    fitting = [place for place, release in enumerate(order) if fits(release)]
    nearest = min(fitting, key=lambda place: (abs(place - max(places)), -place), default=None)
    return "" if nearest is None else order[nearest]


def nearest_branch(driver: str, first: int, last: int | None = None) -> str:
    """Return the supported branch in a range that is nearest to a driver's branch, as text.

    Returns "" if NVIDIA supports none of the range.
    """
    fitting = [
        one for one, data in BRANCHES.items() if data.supported and first <= one <= (last or one)
    ]
    return str(min(fitting, key=lambda one: abs(one - branch(driver)))) if fitting else ""


def package_suffix(driver: str) -> str:
    """Return the package name suffix for a driver's branch: ``-550``; empty from 580 on."""
    return "" if branch(driver) >= UNVERSIONED_FROM else f"-{branch(driver)}"


def fabric_manager_rpm(driver: str) -> str:
    """Return the name of the fabric manager's RPM for a driver version.

    Source: NVIDIA/gpu-driver-container, rhel9/precompiled/Dockerfile.
    """
    renamed = branch(driver) >= UNVERSIONED_FROM
    return "nvidia-fabricmanager" if renamed else "nvidia-fabric-manager"


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as a tuple of numbers for comparison."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def at_least(version: str, minimum: str) -> bool:
    """Return whether a version is at least the minimum."""
    return numbers(version) >= numbers(minimum)
