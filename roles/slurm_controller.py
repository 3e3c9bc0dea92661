"""slurmctld on one head; the workers fetch their configuration from it (configless).

Owns     slurm.conf, gres.conf, cgroup.conf, slurmctld.service.
Restart  slurmctld restarts when its files changed (its state is on disk, jobs run on), and then
         tells every slurmd to fetch them.
"""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation

from lockstep.facts.slurm import (
    DISTRIBUTED,
    HEALTH_CHECK,
    AccountingClusters,
    ConfigurationDistributed,
)
from lockstep.files import managed
from lockstep.files.slurm import SLURM_CONF
from lockstep.plan import NodePlan
from lockstep.spec import Service
from roles._files import managed_files
from roles._role import role
from roles._service import service
from roles._workers_first import on_every_worker

WAIT_S = 60


@operation()
def registered_in_accounting(cluster: str) -> Generator[str, None, None]:
    """Add the cluster to the accounting database when it is not there."""
    if cluster in host.get_fact(AccountingClusters):
        host.noop("the accounting database knows the cluster")
        return
    # A fresh slurmdbd creates its tables first; it answers when it is done.
    yield (
        f"for i in $(seq {WAIT_S}); do sacctmgr -nP list cluster >/dev/null 2>&1 && break; "
        "sleep 1; done; "
        f"sacctmgr -nP list cluster format=cluster | grep -qx {cluster} "
        f"|| sacctmgr -i add cluster {cluster}"
    )


@operation()
def distributed(files: tuple[str, ...]) -> Generator[str, None, None]:
    """Wait for slurmctld and let every slurmd fetch the configuration, when it is newer."""
    if host.get_fact(ConfigurationDistributed, files=files):
        host.noop("every slurmd was told of this configuration")
        return
    yield (
        f"for i in $(seq {WAIT_S}); do scontrol ping 2>&1 | grep -q 'is UP' && break; sleep 1; "
        f"done; scontrol reconfigure && mkdir -p {DISTRIBUTED.rpartition('/')[0]} "
        f"&& touch {DISTRIBUTED}"
    )


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
