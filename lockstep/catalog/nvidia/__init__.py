"""The packages of the NVIDIA stack: NVIDIA's repositories, Debian's archive, Ubuntu's archive.

``compatibility`` has the vendor's compatibility tables, and ``xid`` the driver's error numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lockstep.catalog.nvidia import compatibility
from lockstep.catalog.nvidia.compatibility import Origin
from lockstep.catalog.os import Release


@dataclass(frozen=True)
class Part:
    """The packages of one part of the stack in one archive."""

    names: tuple[str, ...]
    """Package names. Placeholders: {cuda}, a CUDA release (12-4); {cuda_soname}, the version of its
    libraries (12; 11.0 for every CUDA 11.x); {driver_cuda}, the newest CUDA major version that the
    driver supports (13); {branch}, the driver's branch as a suffix (-550; empty from 580 on);
    {series}, the driver's branch (580); {driver}, the driver's version; {fabric_manager}, the name
    of the fabric manager's RPM."""
    version: str = "{version}-*"
    """Package version for an upstream version, as a pattern (apt_preferences(5))."""
    other_versions: Mapping[str, str] = field(default_factory=dict)
    """Package -> its pattern if it differs from ``version``; may contain {series} (550)."""
    brought: tuple[str, ...] = ()
    """Dependencies that must have the same version as these packages, named as in ``names``.
    Lockstep only pins them, to keep apt from choosing a newer version."""


_DOCUMENTED = Origin("NVIDIA driver installation guide; Debian's archive")


@dataclass(frozen=True)
class Packaging:
    """The packages of the stack, for one value of ``software.nvidia.packaging``."""

    parts: Mapping[str, Part]
    """Part (a field of ``software.nvidia``, or modules_open, modules_proprietary, cuda_runtime or
    cuda_toolkit) -> its packages."""

    from_archive: frozenset[str] = frozenset()
    """Parts that the distribution's archive provides; the others need a declared repository."""
    streams: Mapping[str, str] = field(default_factory=dict)
    """Part -> the module stream that has its packages; {series} stands for the branch (580)."""
    origin: Origin = _DOCUMENTED
    """Where the names of the driver's packages come from."""
    superseded: Mapping[int, int] = field(default_factory=dict)
    """Driver branch whose packages are empty in the archive -> the branch on which they depend."""

    def packages(
        self, part: str, version: str | None, driver: str, cuda: tuple[str, ...] = ()
    ) -> Iterator[tuple[str, str]]:
        """Yield (package, version pattern) for each package of a part.

        Args:
            part: a key of ``parts``.
            version: upstream version; None for CUDA parts, whose packages depend on ``cuda``.
            driver: upstream version of the driver.
            cuda: declared CUDA releases, such as 12.4.
        """
        entry = self.parts[part]
        words = _words(driver)
        for name in entry.names:
            pattern = entry.other_versions.get(name, entry.version)
            for one in cuda if version is None else (version,):
                soname = "11.0" if one.startswith("11.") else one.partition(".")[0]
                yield (
                    name.format(cuda=one.replace(".", "-"), cuda_soname=soname, **words),
                    pattern.format(version=one, series=compatibility.branch(one)),
                )

    def pins(self, driver: str) -> dict[str, str]:
        """Return the dependencies that must have the driver's version: package -> pattern."""
        words, entry = _words(driver), self.parts["driver"]
        return {
            name.format(**words): entry.version.format(version=driver) for name in entry.brought
        }

    def every_package(self, driver: str, cuda: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of all packages of the stack."""
        versions = {part: None if part.startswith("cuda_") else "0" for part in self.parts}
        return tuple(
            sorted(
                {
                    name
                    for part, version in versions.items()
                    for name, _ in self.packages(part, version, driver, cuda)
                }
            )
        )


def _words(driver: str) -> dict[str, str]:
    return {
        "driver_cuda": compatibility.cuda_major_of(driver),
        "branch": compatibility.package_suffix(driver),
        "series": str(compatibility.branch(driver)),
        "driver": driver,
        "fabric_manager": compatibility.fabric_manager_rpm(driver),
    }


NVIDIA = {
    "driver": Part(("libcuda1", "libnvidia-ml1", "nvidia-driver-cuda", "nvidia-persistenced")),
    "modules_open": Part(("nvidia-kernel-open-dkms",)),
    "modules_proprietary": Part(("nvidia-kernel-dkms",)),
    "cuda_runtime": Part(("cuda-libraries-{cuda}",), "{version}.*"),
    "cuda_toolkit": Part(("cuda-toolkit-{cuda}",), "{version}.*"),
    "fabric_manager": Part(("nvidia-fabricmanager{branch}",)),
    "nscq": Part(("libnvidia-nscq{branch}",)),
    "imex": Part(("nvidia-imex{branch}",)),
    "dcgm": Part(
        ("datacenter-gpu-manager-4-core", "datacenter-gpu-manager-4-cuda{driver_cuda}"),
        "1:{version}-*",
    ),
    "dcgm_exporter": Part(("datacenter-gpu-manager-exporter",)),
    "container_toolkit": Part(
        (
            "libnvidia-container-tools",
            "libnvidia-container1",
            "nvidia-container-toolkit",
            "nvidia-container-toolkit-base",
        )
    ),
    "nccl": Part(("libnccl2",)),
    "gdrcopy": Part(("gdrdrv-dkms", "libgdrapi")),
    # NVIDIA GPUDirect Storage release notes, "Included Packages", looked up on 2026-11-24.
    "nvidia_fs": Part(("nvidia-fs", "nvidia-fs-dkms")),
    "gds": Part(("nvidia-gds-{cuda}",), "{version}.*"),
}
"""NVIDIA's own repositories (developer.download.nvidia.com/compute/cuda/repos), or a mirror.

Sources of names: driver installation guide (Debian, compute-only), NVIDIA/gpu-driver-container,
DCGM's packaging.cmake, container toolkit's install guide.
"""

DEBIAN = {
    "driver": Part(
        (
            "libcuda1",
            "libnvidia-cfg1",
            "libnvidia-ml1",
            "libnvidia-ptxjitcompiler1",
            "nvidia-persistenced",
            "nvidia-smi",
        ),
        # Built from a separate source package: bookworm has 535.171.04 with driver 535.261.03.
        other_versions={"nvidia-persistenced": "{series}.*"},
        # Each of the packages above depends on this one in the same version.
        brought=("nvidia-alternative",),
    ),
    "modules_open": Part(
        ("firmware-nvidia-gsp", "nvidia-open-kernel-dkms", "nvidia-open-kernel-support")
    ),
    "modules_proprietary": Part(
        ("firmware-nvidia-gsp", "nvidia-kernel-dkms", "nvidia-kernel-support")
    ),
    "cuda_runtime": Part(("libcudart{cuda_soname}",), "{version}.*"),
    "cuda_toolkit": Part(("nvidia-cuda-toolkit",), "{version}.*"),
    "nccl": Part(("libnccl2",)),
    # 2.19.7~12.4.1-2 in trixie, 2.13.5~11.8.0-5~deb12u1 in bookworm.
    "nvidia_fs": Part(("nvidia-fs-dkms",), "{version}~*"),
}
"""Debian's archive (contrib, non-free, non-free-firmware).

Names and versions were read from the archive: trixie has driver 550.163.01 and CUDA 12.4, bookworm
535.261.03 and 11.8.
"""

RHEL = {
    **NVIDIA,
    "driver": Part(
        (
            "libnvidia-cfg",
            "libnvidia-ml",
            "nvidia-driver-cuda",
            "nvidia-driver-cuda-libs",
            "nvidia-kmod-common",
            "nvidia-persistenced",
        )
    ),
    "modules_open": Part(("kmod-nvidia-open-dkms",)),
    "modules_proprietary": Part(("kmod-nvidia-latest-dkms",)),
    "fabric_manager": Part(("{fabric_manager}",)),
    # Epochs are left out: dnf(8) and RPM's reader compare versions without them.
    "dcgm": Part(("datacenter-gpu-manager-4-core", "datacenter-gpu-manager-4-cuda{driver_cuda}")),
    "nccl": Part(("libnccl",)),
    "gdrcopy": Part(("gdrcopy", "gdrcopy-kmod")),
}
"""NVIDIA's repository for the RHEL family (compute/cuda/repos/rhel9), looked up on 2026-11-24.

Sources of names: nvidia-driver.spec of NVIDIA/yum-packaging-nvidia-driver (d06f50a); README of
NVIDIA/yum-packaging-dkms-nvidia (modules, streams); rhel9 of NVIDIA/gpu-driver-container (06a208c:
fabric manager, NSCQ, IMEX); NVIDIA/gdrcopy, README; DCGM's documentation, Install DCGM. libnccl and
the four packages of the container toolkit were not read in the repository.
"""
RHEL_STREAMS = {
    "modules_open": "nvidia-driver:{series}-open",
    "modules_proprietary": "nvidia-driver:{series}-dkms",
}
"""NVIDIA's driver installation guide, "Kernel Modules": the streams of RHEL 9."""
NVIDIA_UBUNTU = {
    **NVIDIA,
    # nvidia-smi is in libnvidia-compute: nvidia-utils is no package of these branches any more.
    "driver": Part(
        ("libnvidia-cfg1", "libnvidia-compute", "nvidia-persistenced"),
        brought=(
            "libnvidia-gpucomp",
            "nvidia-firmware",
            "nvidia-kernel-common",
            "nvidia-kernel-source",
            "nvidia-kernel-source-open",
            "nvidia-modprobe",
        ),
    ),
    "modules_open": Part(("nvidia-dkms-open",)),
    "modules_proprietary": Part(("nvidia-dkms",)),
}
"""NVIDIA's repositories for Ubuntu, from driver branch 590 on."""

NVIDIA_UBUNTU_BEFORE_590 = {
    **NVIDIA,
    "driver": Part(
        (
            "libnvidia-cfg1-{series}",
            "libnvidia-compute-{series}",
            "nvidia-compute-utils-{series}",
            "nvidia-utils-{series}",
        ),
        brought=(
            "libnvidia-gpucomp-{series}",
            "nvidia-firmware-{series}",
            "nvidia-kernel-common-{series}",
            "nvidia-modprobe",
            "nvidia-persistenced",
        ),
    ),
    "modules_open": Part(("nvidia-dkms-{series}-open", "nvidia-kernel-source-{series}-open")),
    "modules_proprietary": Part(("nvidia-dkms-{series}", "nvidia-kernel-source-{series}")),
}
"""NVIDIA's repositories for Ubuntu, before driver branch 590: the names contain the branch."""

UBUNTU_RENAMED_FROM = 590
"""First driver branch whose packages in NVIDIA's repositories for Ubuntu are named without the
branch (NVIDIA driver installation guide, Ubuntu 590 package renames)."""

UBUNTU = {
    "driver": Part(
        (
            "libnvidia-cfg1-{series}-server",
            "libnvidia-compute-{series}-server",
            "nvidia-compute-utils-{series}-server",
            "nvidia-utils-{series}-server",
        ),
        brought=(
            "nvidia-firmware-{series}-server-{driver}",
            "nvidia-kernel-common-{series}-server",
        ),
    ),
    # Not linux-modules-nvidia-*: those are built for the newest kernel only, so that an upgrade of
    # the driver would bring a kernel. DKMS builds the locked version for the kernels of the node.
    "modules_open": Part(
        ("nvidia-dkms-{series}-server-open", "nvidia-kernel-source-{series}-server-open")
    ),
    "modules_proprietary": Part(
        ("nvidia-dkms-{series}-server", "nvidia-kernel-source-{series}-server")
    ),
    "cuda_runtime": Part(("libcudart{cuda_soname}",), "{version}.*"),
    "cuda_toolkit": Part(("nvidia-cuda-toolkit",), "{version}.*"),
    "fabric_manager": Part(("nvidia-fabricmanager-{series}",)),
    "nscq": Part(("libnvidia-nscq-{series}",)),
    "imex": Part(("nvidia-imex-{series}",)),
    "nccl": Part(("libnccl2",)),
}
"""Ubuntu's archive (restricted and multiverse; fabric manager, NSCQ and IMEX: multiverse).

Names, dependencies and versions were read from the archive (jammy and noble, with updates): both
have driver 580.178.04, 595.91.07 and 615.71.09; jammy has CUDA 11.5 and no libnccl2, noble has
12.0 and libnccl2 2.18.5.
"""

PACKAGINGS = {
    "nvidia": Packaging(NVIDIA),
    # Parts that are not in the archive have NVIDIA's package names.
    "debian": Packaging({**NVIDIA, **DEBIAN}, from_archive=frozenset(DEBIAN)),
    "ubuntu": Packaging(
        {**NVIDIA, **UBUNTU},
        from_archive=frozenset(UBUNTU),
        origin=Origin("Ubuntu's archive, jammy-updates and noble-updates"),
        superseded={
            460: 470,
            515: 535,
            525: 535,
            535: 580,
            550: 570,
            565: 580,
            570: 580,
            575: 580,
            590: 595,
        },
    ),
}
"""Value of ``software.nvidia.packaging`` -> the stack's packages, in the Debian family."""
PACKAGINGS_OF_RHEL = {"nvidia": Packaging(RHEL, streams=RHEL_STREAMS)}
"""As ``PACKAGINGS``, in the RHEL family."""

ARCHIVES = {"debian": "debian", "ubuntu": "ubuntu"}
"""Value of ``software.nvidia.packaging`` -> the only distribution (``Release.id``) that has it."""

_ON_UBUNTU = Packaging(
    NVIDIA_UBUNTU,
    origin=Origin(
        "NVIDIA driver installation guide, Ubuntu 590 package renames; a list of the packages of "
        "branch 610 in a third-party program; NVIDIA's repository was not read",
        verified=False,
    ),
)
_ON_UBUNTU_BEFORE_590 = Packaging(
    NVIDIA_UBUNTU_BEFORE_590,
    origin=Origin(
        "third-party installation guides for branch 580; NVIDIA's repository was not read",
        verified=False,
    ),
)


def packaging(name: str, driver: str, release: Release | None) -> Packaging:
    """Return the packages for a value of ``software.nvidia.packaging``.

    Args:
        name: the value. A release that does not have it gets NVIDIA's packages; the description is
            then rejected (``spec.validate_packaging``).
        driver: upstream version of the driver.
        release: the operating system release; None if the description names an unknown one.
    """
    if release is not None and ARCHIVES.get(name, release.id) != release.id:
        name = "nvidia"
    if name == "nvidia" and release is not None and release.id == "ubuntu":
        renamed = compatibility.branch(driver) >= UBUNTU_RENAMED_FROM
        return _ON_UBUNTU if renamed else _ON_UBUNTU_BEFORE_590
    known = PACKAGINGS_OF_RHEL if release and release.family == "rhel" else PACKAGINGS
    return known.get(name, known["nvidia"])
