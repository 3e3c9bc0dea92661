"""Slurm's own files: on the controller, and on workers that cannot fetch them from it."""

from __future__ import annotations

from lockstep.plan.declaration import Condition, File, always

SLURM_CONF = "/etc/slurm/slurm.conf"
FETCHED = "/var/lib/slurm/slurmd/conf-cache/slurm.conf"
"""Where a configless slurmd keeps what it fetched: below SlurmdSpoolDir."""
HEALTH_CHECK = "/usr/local/libexec/lockstep/node-check"
"""HealthCheckProgram, Prolog and Epilog of slurm.conf(5)."""

SLURM_PARSES = (
    # `scontrol ping` reads the whole file first, then names the controller, up or down; slurm has
    # no other test of a file on this host in all supported releases.
    'said="$(SLURM_CONF={new} scontrol ping 2>&1 || true)"; '  # a controller that is down is fine
    'case "$said" in *error:*|*fatal:*) echo "$said" >&2; exit 1;; *Slurmctld*) ;; '
    '*) echo "$said" >&2; exit 1;; esac'
)


def configuration_files(wanted: Condition = always) -> tuple[File, ...]:
    """Return Slurm's configuration as files of a role.

    Args:
        wanted: says whether the node has them, beyond having the role.
    """
    return tuple(
        File(
            path=f"/etc/slurm/{name}",
            template=f"slurm_controller/{name}.j2",
            validate=SLURM_PARSES if name == "slurm.conf" else "",
            wanted=wanted,
        )
        for name in ("cgroup.conf", "gres.conf", "plugstack.conf", "slurm.conf")
    )
