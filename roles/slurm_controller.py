"""slurmctld on one head; the workers fetch their configuration from it (configless).

Owns     slurm.conf, gres.conf, cgroup.conf, plugstack.conf, with NVLink domains or leaf switches
         topology.yaml or topology.conf, and slurmctld.service.
Restart  slurmctld restarts when its files change (its state is on disk, jobs keep running), and
         then tells every slurmd to fetch the new files.
"""

from __future__ import annotations

from lockstep.facts.slurm import (
    accounting_clusters,
    configuration_distributed,
    known_nodes,
    newly_named,
)
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, Unit
from lockstep.plan.slurm import SLURMCTLD_PORT
from lockstep.plan.slurm_files import HEALTH_CHECK, SLURM_CONF, configuration_files
from lockstep.question import Questions
from lockstep.spec import Service


def _asks(plan: NodePlan) -> Questions:
    yield newly_named(HEALTH_CHECK, SLURM_CONF)
    yield accounting_clusters()
    yield known_nodes()
    yield configuration_distributed(plan.system.paths("slurm_controller"))


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
    asks=_asks,
    unchecked={
        "registered_in_accounting": "a check does not query the database; the next deploy does",
        "distributed": "the rule slurm.conf checks the slurm.conf of each worker",
    },
)
