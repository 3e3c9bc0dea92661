"""Operations of the role slurm_controller."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyinfra import host
from pyinfra.api import State

from lockstep.facts.slurm import (
    DISTRIBUTED,
    accounting_clusters,
    configuration_distributed,
    known_nodes,
    new_nodes,
)
from lockstep.plan import NodePlan
from lockstep.plan.slurm_files import HEALTH_CHECK, SLURM_CONF
from lockstep.question import Unreadable
from lockstep.roles.operations.comparison import compares, drain
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.operation import Commands, ask, operation
from lockstep.roles.operations.workers_first import on_every_worker

WAIT_S = 60
_known: WeakKeyDictionary[State, frozenset[str] | None] = WeakKeyDictionary()
"""The nodes that slurmctld knew when a run began; None if it did not answer."""


@operation("the cluster is in the accounting database")
def registered_in_accounting(cluster: str) -> Commands:
    """Add the cluster to the accounting database if it is missing."""
    if cluster in ask(accounting_clusters()):
        return
    # A new slurmdbd answers only after it has created its tables.
    yield (
        f"for i in $(seq {WAIT_S}); do sacctmgr -nP list cluster >/dev/null 2>&1 && break; "
        "sleep 1; done; "
        f"sacctmgr -nP list cluster format=cluster | grep -qx {cluster} "
        f"|| sacctmgr -i add cluster {cluster}"
    )


@operation("slurmctld has told every slurmd to fetch this configuration")
def distributed(files: tuple[str, ...]) -> Commands:
    """If the configuration has changed, make every slurmd fetch it as soon as slurmctld answers."""
    if ask(configuration_distributed(files)):
        return
    yield (
        f"for i in $(seq {WAIT_S}); do scontrol ping 2>&1 | grep -q 'is UP' && break; sleep 1; "
        f"done; scontrol reconfigure && mkdir -p {DISTRIBUTED.rpartition('/')[0]} "
        f"&& touch {DISTRIBUTED}"
    )


@operation("the nodes that slurmctld knows are noted")
def known_nodes_noted() -> Commands:
    """Note which nodes slurmctld knows, before it gets its configuration.

    A run without ``-y`` calls this twice, first to look for changes; the first answer counts.
    """
    if compares() and host.state not in _known:
        _known[host.state] = ask(known_nodes())
    yield from ()


@operation("every node of the cluster has registered")
def drained_until_compared() -> Commands:
    """Drain new nodes, so that they get no jobs before they are compared.

    New are the nodes that have never registered, and those that slurmctld did not know when the
    run began (``known_nodes_noted``).
    """
    if not compares():
        return
    try:
        new = ask(new_nodes(_known.get(host.state)))
    except Unreadable:
        if host.state.is_executing:
            raise
        return  # before its first start, slurmctld does not answer
    if new:
        yield drain(",".join(new))


def apply(plan: NodePlan) -> None:
    """Configure and run slurmctld."""
    known_nodes_noted(name="Nodes that slurmctld knows")
    on_every_worker(
        name="Node check on every worker", plan=plan, path=HEALTH_CHECK, named_in=SLURM_CONF
    )
    put_files(plan, "slurm_controller")
    registered_in_accounting(name="Cluster in the accounting database", cluster=plan.spec.name)
    keep_units(plan, "slurm_controller")
    distributed(name="Configuration to every slurmd", files=plan.system.paths("slurm_controller"))
    drained_until_compared(name="New nodes get no jobs yet")
