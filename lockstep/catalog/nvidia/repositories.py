"""NVIDIA's public repositories: their addresses, and the only keys that may sign them.

A description contains the key itself, from a file of the site. This table holds its fingerprint, so
that a wrong key is refused before any node is contacted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"


@dataclass(frozen=True)
class Signed:
    """A repository of NVIDIA."""

    key: str
    """Address of the ASCII-armored public key."""
    fingerprint: str
    """The fingerprint of the key: 40 hexadecimal digits (RFC 9580, version 4)."""


REPOSITORIES: Mapping[str, Signed] = {
    f"{_CUDA}/debian12/x86_64": Signed(
        f"{_CUDA}/debian12/x86_64/3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"
    ),
    f"{_CUDA}/debian13/x86_64": Signed(
        f"{_CUDA}/debian13/x86_64/8793F200.pub", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
    ),
    "https://nvidia.github.io/libnvidia-container/stable/deb/amd64": Signed(
        "https://nvidia.github.io/libnvidia-container/gpgkey",
        "C95B321B61E88C1809C4F759DDCAE044F796ECB0",
    ),
}
"""Address of a flat repository (suite ``/``), without a final slash -> how it is signed.

Sources: NVIDIA/cuda-repo-management, issues 34 (debian12) and 39 (debian13 has a key of its own,
8793F200); NVIDIA/nvidia-container-toolkit, issue 650 (the toolkit's key). The fingerprint of the
debian13 key was computed from the key.
"""


def of_vendor(uri: str) -> Signed | None:
    """Return how NVIDIA signs the repository at an address; None if it is not NVIDIA's."""
    return REPOSITORIES.get(uri.rstrip("/").replace("http://", "https://", 1))
