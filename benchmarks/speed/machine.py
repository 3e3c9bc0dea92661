"""Describes the machine and the software versions of a benchmark."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from typing import Any

from benchmarks.speed.paths import ROOT
from benchmarks.speed.peers import Peers

LOCKSTEP_PACKAGES = ("pyinfra", "paramiko", "ClusterShell", "pydantic")


def machine(peers: Peers | None) -> dict[str, Any]:
    """Return the description for the JSON output."""
    commit = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(commit, cwd=ROOT, capture_output=True, text=True, check=False)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "commit": done.stdout.strip(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "memory_mib": memory // 2**20,
        "versions": {
            **(peers.versions if peers else {}),
            **{name: version(name) for name in LOCKSTEP_PACKAGES},
        },
    }
