"""slurmctld on one head; the workers fetch their configuration from it (configless).

Owns     slurm.conf, gres.conf, cgroup.conf, slurmctld.service.
Restart  slurmctld restarts when its files changed (its state is on disk, jobs run on), and then
         tells every slurmd to fetch them.
"""

from __future__ import annotations

from lockstep.facts.slurm import HEALTH_CHECK
from lockstep.files import managed
from lockstep.files.slurm import SLURM_CONF
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.service import service
from lockstep.roles.operations.slurm_controller import distributed, registered_in_accounting
from lockstep.roles.operations.workers_first import on_every_worker
from lockstep.spec import Service


@role("Slurm controller")
def apply(plan: NodePlan) -> None:
    """Configure and run slurmctld, on the node that the plan names."""
    if not plan.runs(Service.SLURM_CONTROLLER):
        return
    files = managed(plan, None, "slurm_controller")
    paths = tuple(f.path for f in files)
    on_every_worker(
        name="Node check on every worker", plan=plan, path=HEALTH_CHECK, named_in=SLURM_CONF
    )
    managed_files(name="Files", files=files)
    registered_in_accounting(name="Cluster in the accounting database", cluster=plan.spec.name)
    service(name="slurmctld", unit="slurmctld.service", files=(*paths, "/usr/sbin/slurmctld"))
    distributed(name="Configuration to every slurmd", files=paths)
