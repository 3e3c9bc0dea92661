"""The archives of the distributions: the keys that sign them, and NVIDIA's repository per release.

A description does not name the distribution's archive: the nodes list it already, with its keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.catalog.nvidia import doca
from lockstep.catalog.nvidia.compatibility import Origin
from lockstep.catalog.nvidia.repositories import REPOSITORIES
from lockstep.catalog.os import Release

_DESCRIPTION = Origin("the description")


@dataclass(frozen=True)
class Archive:
    """Where packages come from."""

    name: str
    keys: tuple[str, ...]
    """Fingerprints of the keys, any of which signs it; empty if the site chooses the key."""
    label: str = "archive"
    """One word for tables."""
    address: str = ""
    """Address of the repository; empty for an archive with mirrors, and for the site's own."""
    origin: Origin = _DESCRIPTION


DEBIAN_KEYRING = "debian-archive-keyring in Debian's archive; the signatures of its InRelease"
UBUNTU_KEYRING = "ubuntu-keyring 2023.11.28.1 in Ubuntu's archive; the signatures of its InRelease"
ROCKY_KEY = "third-party programs that verify RPM-GPG-KEY-Rocky-9 and the key of EPEL 9"

_UBUNTU = Archive(
    "Ubuntu's archive (main, universe, restricted, multiverse)",
    ("F6ECB3762474EDA9D21B7022871920D1991BC93C",),
    origin=Origin(UBUNTU_KEYRING),
)

OF_RELEASE: Mapping[str, Archive] = {
    "debian_12": Archive(
        "Debian's archive (main, contrib, non-free, non-free-firmware)",
        (
            "B8B80B5B623EAB6AD8775C45B7C5D7D6350947F8",
            "4D64FEC119C2029067D6E791F8D2585B8783D481",
        ),
        origin=Origin(DEBIAN_KEYRING),
    ),
    "debian_13": Archive(
        "Debian's archive (main, contrib, non-free, non-free-firmware)",
        (
            "04B54C3CDCA79751B16BC6B5225629DF75B188BD",
            "41587F7DB8C774BCCF131416762F67A0B2C39DE4",
        ),
        origin=Origin(DEBIAN_KEYRING),
    ),
    "rocky_9": Archive(
        "Rocky Linux 9 and EPEL 9",
        (
            "21CB256AE16FC54C6E652949702D426D350D275D",
            "FF8AD1344597106ECE813B918A3872BF3228467C",
        ),
        origin=Origin(ROCKY_KEY, verified=False),
    ),
    "ubuntu_22_04": _UBUNTU,
    "ubuntu_24_04": _UBUNTU,
}
"""Release -> the archive that its nodes list. Not every release has an entry."""

UNKNOWN = Archive("the distribution's archive", (), origin=Origin("not looked up", verified=False))

TOOLKIT = "https://nvidia.github.io/libnvidia-container/stable/deb/amd64"

DOCA = Archive(
    "NVIDIA's repository of DOCA-Host, below https://linux.mellanox.com/public/repo/doca",
    (doca.KEY,),
    "DOCA-Host",
    origin=Origin("lockstep/catalog/nvidia/doca.py: read for Ubuntu 24.04", verified=False),
)
SITE = Archive("a repository of the site", (), "site")

_LACKING: Mapping[str, Mapping[str, str]] = {
    "debian_13": {"container_toolkit": TOOLKIT, "dcgm": "", "dcgm_exporter": ""},
}
"""Release -> part that NVIDIA's repository for it lacks -> another repository of NVIDIA, or "".

Sources: NVIDIA/cuda-repo-management, issues 41 (DCGM) and 45 (container toolkit)."""


def of_release(release: Release) -> Archive:
    """Return the archive that nodes of a release list."""
    return OF_RELEASE.get(release.name, UNKNOWN)


def of_part(part: str, release: Release) -> Archive:
    """Return where a part of the NVIDIA stack comes from, if it is not the distribution's archive.

    Args:
        part: a key of ``nvidia.Packaging.parts``.
        release: the operating system of the node.
    """
    system = "rhel9" if release.family == "rhel" else f"{release.id}{release.version_id}"
    folder = system.replace(".", "")
    found = next((uri for uri in REPOSITORIES if f"/repos/{folder}/" in uri), "")
    uri = _LACKING.get(release.name, {}).get(part, found)
    if not uri:
        return SITE
    name, label = f"NVIDIA's repository {'/'.join(uri.split('/')[-2:])}", "NVIDIA"
    if uri == TOOLKIT:
        name, label = "NVIDIA's repository libnvidia-container", "libnvidia-container"
    key = (REPOSITORIES[uri].fingerprint,)
    return Archive(name, key, label, uri, Origin("lockstep/catalog/nvidia/repositories.py"))
