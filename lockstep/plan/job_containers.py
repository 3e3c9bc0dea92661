"""The plan of Apptainer, enroot and pyxis: which nodes get which versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.catalog import job_containers, slurm
from lockstep.catalog.os import Release
from lockstep.spec import Cluster, Node, NodeRole, Service
from lockstep.spec.validate_slurm import series_on

PYXIS_PACKAGE = "nvslurm-plugin-pyxis"
PYXIS_PLUGIN = "/usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so"
"""The plugin's installation path, according to debian/rules in NVIDIA/pyxis."""
PYXIS_PLUGSTACK = "/etc/slurm/plugstack.conf.d/50-lockstep-pyxis.conf"
"""A local file that plugstack.conf includes, even if plugstack.conf comes from the controller."""
PYXIS_OPTION = "--container-image"

SLURM_LOADS = (
    # `srun --help` lists the options of the plugins that it loaded. Slurm has no other way to test
    # a plugin. With this slurm.conf, srun loads no other plugin and contacts no controller.
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; '
    "printf 'ClusterName=test\\nSlurmctldHost=localhost\\nPlugStackConfig=%s\\n' {new} "
    '> "$d/slurm.conf"; '
    'said="$(SLURM_CONF="$d/slurm.conf" timeout 30 srun --help 2>&1 || true)"; '  # checked below
    f'case "$said" in *{PYXIS_OPTION}*) ;; *) echo "$said" | head -3 >&2; exit 1;; esac'
)
"""Shell command that fails unless Slurm loads pyxis with the file ``{new}``."""

ENROOT_TMPFILES = "/etc/tmpfiles.d/50-lockstep-enroot.conf"
ENROOT_FOLDERS = {
    "ENROOT_RUNTIME_PATH": "/run/enroot",
    "ENROOT_CACHE_PATH": "/var/cache/enroot",
    "ENROOT_DATA_PATH": "/var/lib/enroot",
}
"""enroot setting -> local folder (on disk or in /run) with one subfolder per user."""


@dataclass(frozen=True)
class JobContainersPlan:
    """The programs that start jobs in containers on a node."""

    packages_of: Mapping[str, Mapping[str, str]]
    """Part (apptainer, enroot, pyxis) -> package -> version pattern."""
    slurm_series: str
    """Slurm's release series, such as "24.11", for which SPANK plugins must be built."""
    folders: Mapping[str, str] = field(default_factory=lambda: ENROOT_FOLDERS)
    plugin: str = PYXIS_PLUGIN
    plugstack: str = PYXIS_PLUGSTACK


def plan(cluster: Cluster, release: Release, node: Node) -> JobContainersPlan:
    """Return the container programs of a node.

    The controller also gets pyxis, which its srun needs, and enroot, on which pyxis depends.
    """
    programs = cluster.software.containers.programs
    if node.scheduler == "kubernetes":
        programs = {}
    elif node.role is not NodeRole.WORKER:
        starts_jobs = Service.SLURM_CONTROLLER in node.runs and "pyxis" in programs
        programs = {part: programs[part] for part in ("enroot", "pyxis") if starts_jobs}
    return JobContainersPlan(
        packages_of={
            part: job_containers.packages(part, version) for part, version in programs.items()
        },
        plugin=release.local(PYXIS_PLUGIN),
        slurm_series=slurm.text(series_on(cluster, release)),
    )
