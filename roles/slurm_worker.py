"""slurmd; its configuration comes from the controller (configless), where Slurm can do that.

Owns     slurmd's arguments and drop-in, slurmd.service.
Restart  only for new arguments, a new drop-in or program, MIG devices made since; jobs survive it.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File, Unit
from lockstep.plan.job_containers import PYXIS_PLUGIN, PYXIS_PLUGSTACK
from lockstep.plan.nvidia import MIG_MADE
from lockstep.plan.slurm import MUNGE_KEY
from lockstep.plan.slurm_files import configuration_files
from lockstep.plan.validation import SHELL, drop_in

SLURMD_PORT = 6818
"""slurm.conf(5), SlurmdPort."""


def _reads(plan: NodePlan) -> tuple[str, ...]:
    return (
        # A node with another key was refused; a new start registers it at once.
        MUNGE_KEY,
        *((MIG_MADE,) if plan.gpu and plan.gpu.mig else ()),
        # slurmd removes what a job's end left of its containers.
        *((PYXIS_PLUGSTACK, PYXIS_PLUGIN) if "pyxis" in plan.job_containers.parts else ()),
    )


def _mig_packages(plan: NodePlan) -> tuple[str, ...]:
    return plan.cluster.release.slurm_mig if plan.gpu and plan.gpu.mig else ()


ROLE = Declaration(
    name="slurm_worker",
    title="Slurm worker",
    jobs_use=True,
    when=lambda plan: plan.spec.scheduler is not None and plan.is_worker,
    after=("munge", "pyxis", "fabric", "slurm_controller"),
    packages={"debian": ("slurm-client", "slurmd"), "rhel": ("slurm", "slurm-slurmd")},
    more_packages=_mig_packages,
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
)
