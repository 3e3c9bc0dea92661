"""Files of enroot and pyxis."""

from __future__ import annotations

from lockstep.files._entry import Entry
from lockstep.plan.job_containers import ENROOT_TMPFILES, PYXIS_OPTION, PYXIS_PLUGSTACK

LIBEXEC = "/usr/local/libexec/lockstep"

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

ENTRIES = (
    Entry("enroot", ENROOT_TMPFILES, "enroot/tmpfiles.conf.j2"),
    Entry(
        "enroot",
        "/etc/enroot/enroot.conf.d/50-lockstep.conf",
        "enroot/enroot.conf.j2",
        # enroot itself refuses what bash cannot parse.
        validate="bash -n {new}",
    ),
    Entry(
        "enroot",
        f"{LIBEXEC}/enroot-folder",
        "enroot/folder.sh.j2",
        mode="755",
        validate="sh -n {new}",
    ),
    Entry(
        "enroot",
        f"{LIBEXEC}/enroot-gpus",
        "enroot/gpus.sh.j2",
        mode="755",
        validate="sh -n {new}",
        wanted=lambda plan: plan.gpu is not None,
    ),
    Entry("pyxis", PYXIS_PLUGSTACK, "pyxis/plugstack.conf.j2", validate=SLURM_LOADS),
)
