"""Operations of the role slurm_controller."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host

from lockstep.facts.slurm import DISTRIBUTED, AccountingClusters, ConfigurationDistributed
from lockstep.files import paths
from lockstep.plan import NodePlan
from lockstep.plan.slurm_files import HEALTH_CHECK, SLURM_CONF
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.workers_first import on_every_worker

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


def apply(plan: NodePlan) -> None:
    """Configure and run slurmctld."""
    on_every_worker(
        name="Node check on every worker", plan=plan, path=HEALTH_CHECK, named_in=SLURM_CONF
    )
    put_files(plan, "slurm_controller")
    registered_in_accounting(name="Cluster in the accounting database", cluster=plan.spec.name)
    keep_units(plan, "slurm_controller")
    distributed(name="Configuration to every slurmd", files=paths(plan, "slurm_controller"))
