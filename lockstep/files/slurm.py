"""Files of munge and Slurm."""

from __future__ import annotations

from collections.abc import Callable

from lockstep.files._entry import Entry, drop_in
from lockstep.plan import NodePlan
from lockstep.plan.slurm import MUNGE_KEY

SLURM_CONF = "/etc/slurm/slurm.conf"

SLURM_PARSES = (
    # `scontrol ping` reads the whole file first, then names the controller, up or down; slurm has
    # no other test of a file on this host in all supported releases.
    'said="$(SLURM_CONF={new} scontrol ping 2>&1 || true)"; '  # a controller that is down is fine
    'case "$said" in *error:*|*fatal:*) echo "$said" >&2; exit 1;; *Slurmctld*) ;; '
    '*) echo "$said" >&2; exit 1;; esac'
)


def _slurm_configuration(
    role: str, wanted: Callable[[NodePlan], bool] = lambda plan: True
) -> tuple[Entry, ...]:
    """Return Slurm's own files: on the controller, and where workers cannot fetch them."""
    names = ("cgroup.conf", "gres.conf", "plugstack.conf", "slurm.conf")
    return tuple(
        Entry(
            role,
            f"/etc/slurm/{name}",
            f"slurm_controller/{name}.j2",
            validate=SLURM_PARSES if name == "slurm.conf" else "",
            wanted=wanted,
        )
        for name in names
    )


ENTRIES = (
    Entry(
        "munge",
        MUNGE_KEY,
        mode="400",
        owner="munge:munge",
        secret=True,
        # munged(8): a key has 32 to 1024 bytes; munged has no test of a key without starting.
        validate='n="$(stat -c %s {new})"; test "$n" -ge 32 && test "$n" -le 1024',
    ),
    Entry(
        "slurm_accounting",
        "/etc/mysql/mariadb.conf.d/90-lockstep.cnf",
        "slurm_accounting/mariadb.cnf.j2",
        validate="mariadbd --defaults-file={new} --user=mysql --help --verbose >/dev/null",
    ),
    Entry(
        "slurm_accounting",
        "/etc/slurm/slurmdbd.conf",
        "slurm_accounting/slurmdbd.conf.j2",
        mode="600",
        owner="slurm:slurm",
        secret=True,
    ),
    *_slurm_configuration("slurm_controller"),
    *_slurm_configuration("slurm_worker", wanted=lambda plan: not plan.cluster.configless),
    Entry("slurm_worker", "/etc/default/slurmd", "slurm_worker/default.j2", validate="sh -n {new}"),
    Entry(
        "slurm_worker",
        "/etc/systemd/system/slurmd.service.d/50-lockstep.conf",
        "slurm_worker/unit.conf.j2",
        validate=drop_in("slurmd.service"),
    ),
)
