"""DOCA-OFED: NVIDIA's RDMA drivers and libraries, and its repositories of DOCA-Host.

Looked up on 2026-11-28; the repositories themselves were not read. Sources, by what they say:

- Addresses: ``doca/VERSION/OS/ARCH`` below linux.mellanox.com/public/repo, flat.
  NVIDIA/cuda-quantum (realtime, deps_common.sh): ubuntu22.04, ubuntu24.04; the RHEL family by its
  major version (rhel9); x86_64 or arm64-sbsa. debian13: the name of DOCA-Host's own package
  (doca-host_3.3.0-...-debian13).
- Packages: NVIDIA, DOCA profiles: ``doca-ofed``; DOCA installation guide, meta-packages:
  ``doca-ofed-userspace``. Versions: doca-ofed-userspace 3.2.3-019000 and doca-ofed 2.9.5-0.1.8 in
  public install scripts.
- Modules: NVIDIA, DOCA 3.2.1, General support: from 3.2.0 on, DKMS builds them for the kernels of
  the node. Earlier releases have modules for the kernel of one minor release.
- Conflicts: rdma-core, libibverbs and perftest of DOCA-Host have the distribution's names and later
  versions (2510.0.11 instead of 61.0; Azure/azhpc-images, install_doca.sh), and ``doca-ofed`` needs
  each of its packages in one exact version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lockstep.catalog.nvidia.compatibility import at_least
from lockstep.catalog.os import Release

WITH_MODULES, WITHOUT_MODULES = "doca-ofed", "doca-ofed-userspace"
DKMS_FROM = "3.2.0"
"""First release whose modules DKMS builds, for every kernel with headers."""
FIRST = {"debian_13": "3.2.1"}
"""OS release -> the first DOCA release for which it was seen (the name of DOCA-Host's package)."""
NOT_VERIFIED = {
    "debian_12": "DOCA-Host 3.1.0 has packages for it; no source names a later one",
    "debian_13": (
        "DOCA-OFED 3.2.1 did not build for kernel 6.12.57 in a public report, for 6.12.48 it did"
    ),
    **dict.fromkeys(
        ("rhel_9", "rocky_9", "almalinux_9"),
        "DOCA-OFED 3.3.0 did not build for kernel 5.14.0-687 (9.8) in a public report, for "
        "5.14.0-611 (9.7) it did",
    ),
}
"""OS release -> what nobody has verified of DOCA-OFED there."""

_ADDRESS = re.compile(
    r"https://linux\.mellanox\.com/public/repo/doca/([^/]+)/([^/]+)/(x86_64|arm64-sbsa)"
)
_KEY_READ_FOR = "ubuntu24.04"
KEY = "70454E6BF5D9C2D3B78709E8DC726C5E41B9CC50"
"""NVIDIA DOCA Host, made on 2026-01-20. It signs every version, old ones as well; the file
GPG-KEY-Mellanox.pub beside the packages has only keys that were in use before.

Source: Azure/AgentBaker, pull requests 9256 and 9394, which read the signatures of InRelease for
Ubuntu 24.04. NVIDIA/cuda-quantum, pull request 5456, says that the RPMs have a new key since
January 2026, too, without its fingerprint. Not verified, and therefore not here: other releases;
any key is taken for their repositories, and ``lockstep plan`` has a note.
"""


@dataclass(frozen=True)
class DocaRepository:
    """A repository of DOCA-Host, by its address."""

    address: str
    version: str
    """The release of DOCA-Host, or a word that moves: ``latest``, ``latest-3.2-LTS``."""
    system: str
    """NVIDIA's name of the operating system, such as ubuntu24.04 or rhel9."""
    folder: str
    """NVIDIA's name of the architecture: x86_64 or arm64-sbsa."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its key; empty if no source has it."""
        return KEY if self.system == _KEY_READ_FOR else ""

    def at(self, version: str, release: Release, architecture: str) -> str:
        """Return the address of the repository of a release for nodes."""
        last = {"arm64": "arm64-sbsa"}.get(architecture, architecture)
        before = self.address.removesuffix(f"/{self.version}/{self.system}/{self.folder}")
        return f"{before}/{version}/{system(release)}/{last}"


def repository(address: str) -> DocaRepository | None:
    """Return what the address of a repository says; None if it is not NVIDIA's of DOCA-Host."""
    found = _ADDRESS.fullmatch(address)
    return None if found is None else DocaRepository(address, found[1], found[2], found[3])


def system(release: Release) -> str:
    """Return NVIDIA's name of an operating system in the addresses of DOCA-Host."""
    return "rhel9" if release.family == "rhel" else f"{release.id}{release.version_id}"


def first(release: Release) -> str:
    """Return the first DOCA release whose DOCA-OFED an operating system can have."""
    return FIRST.get(release.name, DKMS_FROM)


def supports(version: str, release: Release) -> bool:
    """Return whether an operating system can have the DOCA-OFED of a DOCA release."""
    return at_least(version, first(release))


def packages(version: str) -> dict[str, str]:
    """Return the packages that bring all others of a release: name -> version pattern.

    Nodes get one of them. The first one is for machines with a kernel of their own, for which DKMS
    builds the modules; the second one has no modules. Empty without a release.
    """
    return dict.fromkeys((WITH_MODULES, WITHOUT_MODULES), f"{version}-*") if version else {}
