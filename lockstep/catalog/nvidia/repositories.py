"""NVIDIA's public repositories: their addresses, and the only keys that may sign them.

A description contains the key itself, from a file of the site. This table holds its fingerprint, so
that a wrong key is refused before any node is contacted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from lockstep.catalog.nvidia import doca

_CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"


@dataclass(frozen=True)
class Signed:
    """A repository of NVIDIA, or of another project that signs its own packages."""

    key: str
    """Address of the ASCII-armored public key."""
    fingerprint: str
    """The fingerprint of the key: 40 hexadecimal digits (RFC 9580, version 4)."""
    of: str = "NVIDIA's"
    """Whose key it is, in a message."""


REPOSITORIES: Mapping[str, Signed] = {
    **{
        f"{_CUDA}/{name}/x86_64": Signed(
            f"{_CUDA}/{name}/x86_64/3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"
        )
        for name in ("debian12", "ubuntu2204", "ubuntu2404")
    },
    **{
        f"{_CUDA}/{name}/sbsa": Signed(
            f"{_CUDA}/{name}/sbsa/3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"
        )
        for name in ("debian12", "ubuntu2204", "ubuntu2404")
    },
    f"{_CUDA}/debian13/x86_64": Signed(
        f"{_CUDA}/debian13/x86_64/8793F200.pub", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
    ),
    **{
        f"{_CUDA}/rhel9/{folder}": Signed(
            f"{_CUDA}/rhel9/{folder}/D42D0685.pub", "610C7B14E068A878070DA4E99CD0A493D42D0685"
        )
        for folder in ("x86_64", "sbsa")
    },
    "https://nvidia.github.io/libnvidia-container/stable/deb/amd64": Signed(
        "https://nvidia.github.io/libnvidia-container/gpgkey",
        "C95B321B61E88C1809C4F759DDCAE044F796ECB0",
    ),
}
"""Address of a flat repository (suite ``/``), without a final slash -> how it is signed.

Sources: NVIDIA/cuda-repo-management, issues 34 (debian12) and 39 (debian13 has a key of its own,
8793F200); NVIDIA/nvidia-container-toolkit, issue 650 (the toolkit's key). The fingerprint of the
debian13 key was computed from the key. rhel9: NVIDIA/gpu-driver-container, rhel9/Dockerfile, names
the key; its fingerprint is that of two public build scripts, and was not computed here. ubuntu2204
and ubuntu2404 (2026-11-24): NVIDIA's installation guides name the key, and programs that install it
from there name its fingerprint (canonical/checkbox for every Ubuntu release).

sbsa (2026-11-24): the index of ubuntu2404/sbsa has the key; several public install scripts take
3bf863cc.pub from ubuntu2204/sbsa and debian12/sbsa, and a copy of NVIDIA's cuda-rhel9.repo for sbsa
names D42D0685.pub. The name of a key's file is the end of its fingerprint: these are the keys of
x86_64. Not verified, and therefore not here: the key of debian13/sbsa. Several public scripts use
the repository (again looked up on 2026-11-28), but only with the package cuda-keyring, and none
names the key; any key is taken for it, and ``lockstep plan`` has a note.
"""


def cuda_folder(uri: str, suite: str = "/") -> str:
    """Return the architecture in the address of a CUDA repository of NVIDIA; "" for others.

    ``sbsa`` is NVIDIA's word for servers with arm64 processors.
    """
    address = flat_address(uri, suite)
    return address.rpartition("/")[2] if address and address.startswith(f"{_CUDA}/") else ""


def of_vendor(uri: str, suite: str = "/") -> Signed | None:
    """Return how NVIDIA signs a repository; None if it is not NVIDIA's.

    Different spellings of an address are the same repository: a part of the path can be in the
    suite, the host can be in upper case, and apt replaces $(ARCH) in the path (sources.list(5)).

    Args:
        uri: the address of the repository.
        suite: its suite; the path of a flat repository continues with it.
    """
    address = flat_address(uri, suite) or ""
    known = doca.repository(address)
    if known is not None and known.fingerprint:
        key = f"{address}/doca_keyring.gpg (gpg --import, then --export --armor)"
        return Signed(key, known.fingerprint)
    return REPOSITORIES.get(address)


def of_doca(uri: str, suite: str = "/") -> doca.DocaRepository | None:
    """Return what the address of a repository of DOCA-Host says; None for other repositories."""
    return doca.repository(flat_address(uri, suite) or "")


def flat_address(uri: str, suite: str) -> str | None:
    """Return the address of a flat repository in the form of ``REPOSITORIES``."""
    try:
        parts = urlsplit(uri.replace("$(ARCH)", "amd64"))
        host = (parts.hostname or "").rstrip(".")
    except ValueError:  # not an address that apt can use
        return None
    flat = suite if suite.endswith("/") else ""
    path = posixpath.normpath(f"/{unquote(parts.path)}/{flat}").lstrip("/")
    return f"https://{host}/{path}"
