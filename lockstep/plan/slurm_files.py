"""Slurm's configuration files, on the controller and on workers that cannot fetch them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockstep.plan.declaration import Condition, File, always
from lockstep.plan.site_lines import of_slurm

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

SLURM_CONF = "/etc/slurm/slurm.conf"
FETCHED = "/var/lib/slurm/slurmd/conf-cache/slurm.conf"
"""Path, below SlurmdSpoolDir, of the slurm.conf that slurmd fetches in configless mode."""
HEALTH_CHECK = "/usr/local/libexec/lockstep/node-check"
"""The program that Slurm runs as HealthCheckProgram, Prolog and Epilog (slurm.conf(5))."""

SLURM_PARSES = (
    # `scontrol ping` reads the whole file, then prints the controller and whether it is up. Slurm
    # has no other way to test the file locally that works in all supported releases.
    'said="$(SLURM_CONF={new} scontrol ping 2>&1 || true)"; '  # a controller that is down is fine
    'case "$said" in *error:*|*fatal:*) echo "$said" >&2; exit 1;; *Slurmctld*) ;; '
    '*) echo "$said" >&2; exit 1;; esac'
)


WITH_SITE_LINES = ("slurm.conf", "gres.conf", "cgroup.conf")


def configuration_files(wanted: Condition = always) -> tuple[File, ...]:
    """Return Slurm's configuration files, for the declaration of a role.

    Args:
        wanted: whether a node with the role gets them.
    """
    return tuple(
        File(
            path=f"/etc/slurm/{name}",
            template=f"slurm_controller/{name}.j2",
            validate=SLURM_PARSES if name == "slurm.conf" else "",
            keys=of_slurm if name in WITH_SITE_LINES else None,
            wanted=partial(_both, wanted, wanted_with) if wanted_with else wanted,
        )
        for name, wanted_with in (
            *dict.fromkeys(("cgroup.conf", "gres.conf", "plugstack.conf")).items(),
            *((name, partial(_has_topology, name)) for name in ("topology.conf", "topology.yaml")),
            # The last one: slurm.conf names what the others hold.
            ("slurm.conf", None),
        )
    )


def _has_topology(name: str, plan: NodePlan) -> bool:
    return plan.cluster.slurm is not None and plan.cluster.slurm.topologies.file == name


def _both(one: Condition, other: Condition, plan: NodePlan) -> bool:
    return one(plan) and other(plan)
