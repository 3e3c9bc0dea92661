"""enroot: containers without root and without a daemon, with folders of each user alone.

Owns     one drop-in of enroot.conf, the folders that it names, the programs that it calls.
Restart  nothing: enroot reads them at each call.
"""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, File
from lockstep.plan.job_containers import ENROOT_TMPFILES
from lockstep.plan.validation import SHELL

LIBEXEC = "/usr/local/libexec/lockstep"

ROLE = Declaration(
    name="enroot",
    title="enroot",
    jobs_use=True,
    when=lambda plan: "enroot" in plan.job_containers.parts,
    after=("node_exporter", "container_runtime"),
    more_packages=lambda plan: plan.job_container_packages("enroot"),
    files=(
        File(path=ENROOT_TMPFILES, template="enroot/tmpfiles.conf.j2"),
        File(
            path="/etc/enroot/enroot.conf.d/50-lockstep.conf",
            template="enroot/enroot.conf.j2",
            # enroot itself refuses what bash cannot parse.
            validate="bash -n {new}",
        ),
        File(
            path=f"{LIBEXEC}/enroot-folder",
            template="enroot/folder.sh.j2",
            mode="755",
            validate=SHELL,
        ),
        File(
            path=f"{LIBEXEC}/enroot-gpus",
            template="enroot/gpus.sh.j2",
            mode="755",
            validate=SHELL,
            wanted=lambda plan: plan.gpu is not None,
        ),
    ),
    operations="lockstep.roles.operations.enroot",
)
