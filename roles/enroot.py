"""enroot: containers without root or a daemon; each user has their own folders.

Owns     a drop-in for enroot.conf, the folders that it names, and the scripts that it calls.
Restart  nothing: enroot reads its configuration whenever it is called.
"""

from __future__ import annotations

from lockstep.facts.containers import folders_open_to_all
from lockstep.plan.declaration import SHELL, Declaration, File
from lockstep.plan.job_containers import ENROOT_TMPFILES

LIBEXEC = "/usr/local/libexec/lockstep"

ROLE = Declaration(
    name="enroot",
    title="enroot",
    jobs_use=True,
    when=lambda plan: "enroot" in plan.job_containers.packages_of,
    after=("node_exporter", "container_runtime"),
    more_packages=lambda plan: tuple(plan.job_containers.packages_of["enroot"]),
    files=(
        File(path=ENROOT_TMPFILES, template="enroot/tmpfiles.conf.j2"),
        File(
            path="/etc/enroot/enroot.conf.d/50-lockstep.conf",
            template="enroot/enroot.conf.j2",
            # enroot itself refuses a file that bash cannot parse.
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
    asks=lambda plan: [folders_open_to_all(plan.job_containers.folders.values())],
    unchecked={
        "folders_for_all": "file.content checks the file that creates the folders at each boot",
    },
)
