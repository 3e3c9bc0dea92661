"""Workers that are deployed before their heads: by ``deploys/worker.py``, on its own.

Their clocks and slurmd wait for the heads. That is no failure: a deploy says it and goes on, and
both begin to work when the heads are deployed.
"""

from __future__ import annotations

from weakref import WeakSet

from pyinfra import host
from pyinfra.api import State, StringCommand

from lockstep.facts.reading import connector_arguments
from lockstep.plan import NodePlan
from lockstep.plan.slurm import SLURMCTLD_PORT
from lockstep.spec import Service

ANSWERS_WITHIN_S = 5

_with_heads: WeakSet[State] = WeakSet()


def deploys_heads(state: State) -> None:
    """Note that a run deploys a head."""
    _with_heads.add(state)


def lacks_controller(plan: NodePlan) -> bool:
    """Return whether no controller answers this worker, in a run that deploys workers only.

    Before the run is executed, in a run that deploys heads as well, and in a cluster that has no
    controller, the answer is False.
    """
    if not host.state.is_executing or host.state in _with_heads:
        return False
    controller = plan.cluster.running(Service.SLURM_CONTROLLER)
    if controller is None:
        return False
    listens = f"</dev/tcp/{controller.address}/{SLURMCTLD_PORT}"
    command = StringCommand(f"timeout {ANSWERS_WITHIN_S} bash -c '{listens}' 2>/dev/null")
    answers, _ = host.run_shell_command(command, **connector_arguments(host))
    return not answers
