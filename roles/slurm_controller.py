"""slurmctld on one head; the workers fetch their configuration from it (configless).

Owns     slurm.conf, gres.conf, cgroup.conf, plugstack.conf, slurmctld.service.
Restart  slurmctld restarts when its files changed (its state is on disk, jobs run on), and then
         tells every slurmd to fetch them.
"""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, Unit
from lockstep.plan.slurm_files import configuration_files
from lockstep.spec import Service

SLURMCTLD_PORT = 6817
"""slurm.conf(5), SlurmctldPort."""

ROLE = Declaration(
    name="slurm_controller",
    title="Slurm controller",
    when=lambda plan: plan.runs(Service.SLURM_CONTROLLER),
    after=("munge", "slurm_accounting"),
    packages={"debian": ("slurm-client", "slurmctld"), "rhel": ("slurm", "slurm-slurmctld")},
    files=configuration_files(),
    units=(
        Unit(
            name="slurmctld.service",
            program="/usr/sbin/slurmctld",
            port=lambda plan: SLURMCTLD_PORT,
        ),
    ),
    operations="lockstep.roles.operations.slurm_controller",
)
