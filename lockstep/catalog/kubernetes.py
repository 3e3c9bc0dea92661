"""The Kubernetes project's package repositories, and the only key that may sign them."""

from __future__ import annotations

import re

from lockstep.catalog.nvidia.repositories import Signed, flat_address

ADDRESS = re.compile(r"https://pkgs\.k8s\.io/core:/stable:/v([0-9]+\.[0-9]+)/(deb|rpm)")
"""One repository for each minor version (Kubernetes, Change Package Repository)."""
FINGERPRINT = "DE15B14486CD377B9E876E1A234654DA9A296436"
"""Of the key "isv:kubernetes OBS Project". Source: kubernetes/kubernetes, issue 128609; it was also
computed from the key. The project prolongs the key without another fingerprint (kubernetes/release,
issue 3818); the copy in inventories/keys ends on 2026-12-29."""


def of_project(uri: str, suite: str = "/") -> Signed | None:
    """Return how the Kubernetes project signs a repository; None if it is not the project's.

    Args:
        uri: the address of the repository.
        suite: its suite; the path of a flat repository continues with it.
    """
    address = flat_address(uri, suite) or ""
    found = ADDRESS.fullmatch(address)
    if found is None:
        return None
    key = "Release.key" if found[2] == "deb" else "repodata/repomd.xml.key"
    return Signed(f"{address}/{key}", FINGERPRINT, "the Kubernetes project's")


def minor_version(uri: str, suite: str = "/") -> str:
    """Return the minor version that a repository of the project has; "" for other repositories.

    Args:
        uri: the address of the repository.
        suite: its suite.
    """
    found = ADDRESS.fullmatch(flat_address(uri, suite) or "")
    return found[1] if found else ""
