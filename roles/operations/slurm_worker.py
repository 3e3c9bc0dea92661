"""Operations of the role slurm_worker."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host

from lockstep.facts.files import file_states
from lockstep.facts.reading import ask
from lockstep.facts.slurm import OURS, SlurmNode
from lockstep.fast.connector import read_anew_after
from lockstep.files import slurm_conf_sha256
from lockstep.plan import NodePlan
from lockstep.plan.slurm_files import FETCHED, HEALTH_CHECK
from lockstep.roles.operations.declared import files_and_units
from lockstep.roles.operations.operation import operation

WAIT_S = 60


RETURNS = ("Node unexpectedly rebooted", "Not responding")
"""Reasons that slurmctld itself gives to a node that went away: the deploy brings it back."""

OUTDATED = "CoreSpec differ"
"""slurmctld's reason where a slurmd registers with the CPUs of the slurm.conf before: on a slow
machine that happens between the controller's deploy and the worker's (seen with 24.11)."""


@operation()
def registered(node: str, controller: str) -> Generator[str, None, None]:
    """Wait until the controller has the node, and return it from a state its absence caused.

    A node that a person took out stays out; one that the health check took out comes back when
    that check finds nothing any more.
    """
    # What came with the connection is of before slurmctld has seen what it was just told.
    read_anew_after(host, controller)
    state = host.get_fact(SlurmNode, node=node)
    away = not state.states or bool(state.states & {"NOT_RESPONDING", "UNKNOWN"})
    taken_out = state.reason.startswith(OURS) and state.healthy
    returns = "DOWN" in state.states and state.reason in RETURNS
    returns |= "DRAIN" in state.states and state.reason == OUTDATED
    if not away and not taken_out and not returns:
        host.noop("the controller has the node")
        return
    if away:
        # scontrol itself waits long for a controller that is not there: each try has an end.
        yield (
            # A new slurmd is there at once mostly; thousands of them must not ask more often.
            f"pause=0.3; end=$(($(date +%s) + {WAIT_S})); while [ $(date +%s) -lt $end ]; do "
            f"s=$(timeout 10 scontrol -o show node {node} 2>&1); "
            'case "$s" in *State=*NOT_RESPONDING*|*State=UNKNOWN*|*State=*"* Thr"*) ;; '
            "NodeName=*) exit 0;; esac; sleep $pause; pause=1; done; "
            f'echo "the controller does not have this node after {WAIT_S} s: '
            '${s:-no answer from it}" >&2; exit 1'
        )
    if taken_out:
        yield HEALTH_CHECK
    else:
        # The state may have changed while we waited, so the node asks again.
        reasons = "|".join(
            (
                *(f"*State=DOWN*Reason='{reason}'*" for reason in RETURNS),
                f"*State=*DRAIN*Reason='{OUTDATED}'*",
            )
        )
        yield (
            f'case "$(timeout 30 scontrol -o show node {node})" in {reasons}) '
            f"scontrol update NodeName={node} State=RESUME;; esac"
        )


@operation()
def configuration_fetched(sha256: str) -> Generator[str, None, None]:
    """Restart slurmd when it works with another slurm.conf than the plan's.

    It fetched the file when it started and at each reconfigure that reached it; a node that was
    cut off meanwhile has an old one.

    Args:
        sha256: of the controller's slurm.conf.
    """
    state = ask(host, file_states((FETCHED,)))[FETCHED]
    if state is not None and state.sha256 == sha256:
        host.noop("slurmd works with the plan's slurm.conf")
        return
    fetched = f"$(sha256sum < {FETCHED} | cut -d' ' -f1)"
    yield (
        f"systemctl restart slurmd.service && "
        f'if [ "{fetched}" != {sha256} ]; then echo "the controller has another slurm.conf than '
        'the plan: deploy the head first (deploys/head.py)" >&2; exit 1; fi'
    )


def apply(plan: NodePlan) -> None:
    """Configure and run slurmd, then see it registered."""
    files_and_units(plan, "slurm_worker")
    controller = plan.cluster.nodes[plan.controller_host]
    # A slurm.conf that the site takes care of is not known here.
    if plan.cluster.configless and "slurm_controller" in controller.capabilities:
        configuration_fetched(
            name="Configuration from the controller", sha256=slurm_conf_sha256(plan)
        )
    registered(
        name="Registered with the controller", node=plan.name, controller=plan.controller_host
    )
