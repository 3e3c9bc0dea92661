"""Apptainer, enroot and pyxis: which node gets them, at which versions, for which Slurm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.catalog import job_containers
from lockstep.catalog.os import Release
from lockstep.spec import Cluster, Node, Role, Service

PYXIS_PACKAGE = "nvslurm-plugin-pyxis"
PYXIS_PLUGIN = "/usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so"
"""NVIDIA/pyxis, debian/rules."""
PYXIS_PLUGSTACK = "/etc/slurm/plugstack.conf.d/50-lockstep-pyxis.conf"
"""Each node's own line of plugstack.conf; also where plugstack.conf itself is fetched."""
PYXIS_OPTION = "--container-image"

SLURM_LOADS = (
    # srun's help lists the options of the plugins that it loaded. Slurm has no other test of a
    # plugin; with a slurm.conf of its own no other plugin and no controller is asked.
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; '
    "printf 'ClusterName=test\\nSlurmctldHost=localhost\\nPlugStackConfig=%s\\n' {new} "
    '> "$d/slurm.conf"; '
    'said="$(SLURM_CONF="$d/slurm.conf" timeout 30 srun --help 2>&1 || true)"; '  # judged below
    f'case "$said" in *{PYXIS_OPTION}*) ;; *) echo "$said" | head -3 >&2; exit 1;; esac'
)
"""Shell command that fails unless Slurm loads pyxis by the file ``{new}``."""

ENROOT_TMPFILES = "/etc/tmpfiles.d/50-lockstep-enroot.conf"
ENROOT_FOLDERS = {
    "ENROOT_RUNTIME_PATH": "/run/enroot",
    "ENROOT_CACHE_PATH": "/var/cache/enroot",
    "ENROOT_DATA_PATH": "/var/lib/enroot",
}
"""Setting of enroot -> folder on the node's own disk (or in memory) with one folder per user."""


@dataclass(frozen=True)
class JobContainersPlan:
    """What a node gets to start jobs in containers."""

    parts: Mapping[str, str]
    """apptainer, enroot, pyxis -> upstream's version, for what it gets."""
    slurm_series: str
    """Slurm loads SPANK plugins of its own series only, such as "24.11"."""
    folders: Mapping[str, str] = field(default_factory=lambda: ENROOT_FOLDERS)
    plugin: str = PYXIS_PLUGIN
    plugstack: str = PYXIS_PLUGSTACK
    option: str = PYXIS_OPTION

    @property
    def packages_of(self) -> dict[str, dict[str, str]]:
        """Part -> its packages -> their versions as patterns."""
        return {
            part: dict(job_containers.packages(part, version))
            for part, version in self.parts.items()
        }

    @property
    def versions(self) -> dict[str, str]:
        """Package -> version as a pattern."""
        return {
            name: pattern
            for packages in self.packages_of.values()
            for name, pattern in packages.items()
        }


def plan(cluster: Cluster, release: Release, node: Node) -> JobContainersPlan:
    """Return what a node gets.

    Where jobs are started from, srun needs the plugin too, and the plugin's package needs enroot.
    """
    containers = cluster.software.containers
    parts: tuple[str, ...] = ()
    if node.role is Role.WORKER:
        parts = ("apptainer", "enroot", "pyxis")
    elif Service.SLURM_CONTROLLER in node.runs and containers.pyxis:
        parts = ("enroot", "pyxis")
    declared = {part: version for part in parts if (version := getattr(containers, part))}
    return JobContainersPlan(declared, _slurm_series(cluster, release))


def _slurm_series(cluster: Cluster, release: Release) -> str:
    locked = re.match(r"(?:\d+:)?(\d+\.\d+)", cluster.software.versions.get("slurmd", ""))
    major, minor = release.slurm
    return locked[1] if locked else f"{major}.{minor:02}"
