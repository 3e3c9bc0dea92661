"""slurmd, configless: its configuration comes from the controller.

Owns     slurmd's arguments and drop-in, the health check program, slurmd.service.
Restart  only for new arguments, a new drop-in or a new program; running jobs survive it.
"""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import deploy, operation

from lockstep.facts.slurm import SlurmNode
from lockstep.files import managed
from lockstep.plan import NodePlan
from roles._files import managed_files
from roles._service import service

WAIT_S = 60
RETURNS = ("Node unexpectedly rebooted", "Not responding")
"""Reasons that slurmctld itself gives to a node that went away: the deploy brings it back."""


@operation()
def registered(node: str) -> Generator[str, None, None]:
    """Wait until the controller has the node, and return it from a state its absence caused.

    A node that a person, or the health check, took out stays out.
    """
    state = host.get_fact(SlurmNode, node=node)
    away = not state.states or bool(state.states & {"NOT_RESPONDING", "UNKNOWN"})
    returns = "DOWN" in state.states and state.reason in RETURNS
    if not away and not returns:
        host.noop("the controller has the node")
        return
    if away:
        yield (
            f"for i in $(seq {WAIT_S}); do s=$(scontrol -o show node {node} 2>&1); "
            'case "$s" in *NOT_RESPONDING*|*State=UNKNOWN*|*State=*"* "*|*error*) sleep 1;; '
            "*) exit 0;; esac; done; "
            f'echo "the controller does not have this node after {WAIT_S} s: $s" >&2; exit 1'
        )
    reasons = "|".join(f"*Reason='{reason}'*" for reason in RETURNS)
    yield (
        f'case "$(scontrol -o show node {node})" in *State=DOWN*) '
        f'case "$(scontrol -o show node {node})" in {reasons}) '
        f"scontrol update NodeName={node} State=RESUME;; esac;; esac"
    )


@deploy("Slurm worker")
def apply(plan: NodePlan) -> None:
    """Configure and run slurmd, then see it registered."""
    if "slurm_worker" not in plan.capabilities:
        return
    files = managed(plan, None, "slurm_worker")
    managed_files(name="Files", files=files)
    service(
        name="slurmd",
        unit="slurmd.service",
        files=(
            "/etc/default/slurmd",
            "/etc/systemd/system/slurmd.service.d/50-lockstep.conf",
            "/usr/sbin/slurmd",
        ),
    )
    registered(name="Registered with the controller", node=plan.name)
