"""slurmd, which fetches its configuration from the controller (configless) if Slurm supports that.

Owns     slurmd's arguments and drop-in, and slurmd.service.
Restart  only for new arguments, a new drop-in, program, munge key or plugin, a slurm.conf that is
         out of date, GPUs or MIG devices that came after slurmd started, or a node that stays
         NOT_RESPONDING; jobs survive it.
"""

from __future__ import annotations

from lockstep.facts.files import file_states
from lockstep.facts.slurm import slurm_node
from lockstep.plan import NodePlan
from lockstep.plan.declaration import SHELL, Declaration, File, Unit, drop_in
from lockstep.plan.job_containers import PYXIS_PLUGSTACK
from lockstep.plan.nvidia import MIG_MADE
from lockstep.plan.slurm import MUNGE_KEY, NVML_PLUGIN
from lockstep.plan.slurm_files import FETCHED, configuration_files

SLURMD_PORT = 6818
"""slurm.conf(5), SlurmdPort."""


def _detects(plan: NodePlan) -> bool:
    return bool(plan.hardware.slurm.autodetect)


def _reads(plan: NodePlan) -> tuple[str, ...]:
    return (
        # The controller rejects a node with a different key; a restarted slurmd registers at once.
        MUNGE_KEY,
        # slurmd looks for GPUs only when it starts. Their device files come with the driver.
        *((NVML_PLUGIN, *plan.hardware.gpu_devices) if _detects(plan) else ()),
        *((MIG_MADE,) if plan.gpu and plan.gpu.mig else ()),
        # slurmd loads the plugin, too: it removes the containers that a job left behind.
        *(
            (PYXIS_PLUGSTACK, plan.job_containers.plugin)
            if "pyxis" in plan.job_containers.packages_of
            else ()
        ),
    )


ROLE = Declaration(
    name="slurm_worker",
    title="Slurm worker",
    jobs_use=True,
    when=lambda plan: plan.takes_slurm_jobs,
    after=("munge", "pyxis", "fabric", "slurm_controller"),
    packages={"debian": ("slurm-client", "slurmd"), "rhel": ("slurm", "slurm-slurmd")},
    more_packages=lambda plan: plan.release.slurm_nvml if _detects(plan) else (),
    files=(
        *configuration_files(wanted=lambda plan: not plan.cluster.configless),
        File(path="/etc/default/slurmd", template="slurm_worker/default.j2", validate=SHELL),
        File(
            path="/etc/systemd/system/slurmd.service.d/50-lockstep.conf",
            template="slurm_worker/unit.conf.j2",
            validate=drop_in("slurmd.service"),
        ),
    ),
    units=(
        Unit(
            name="slurmd.service",
            program="/usr/sbin/slurmd",
            reads=_reads,
            port=lambda plan: SLURMD_PORT,
            runs_jobs=True,
        ),
    ),
    operations="lockstep.roles.operations.slurm_worker",
    asks=lambda plan: [file_states((FETCHED,)), slurm_node(plan.name)],
    unchecked={
        "registered": (
            "slurm.state reports every node that takes no jobs; a deploy resumes only nodes that "
            "did not respond or that the health check drained; an administrator resumes all others"
        ),
    },
)
