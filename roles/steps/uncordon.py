"""Uncordons a worker of Kubernetes that its own node check cordoned, once it is healthy again.

By itself, the node check looks only every five minutes. So every run that may have repaired the
worker, also one of a single role, lets it look at its end.

Owns     nothing: the node check changes the node.
Restart  nothing.
"""

from __future__ import annotations

from pyinfra import host

from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.facts.slurm import OURS, is_healthy
from lockstep.plan import NodePlan
from lockstep.plan.slurm_files import HEALTH_CHECK
from lockstep.roles.operations.kubernetes_member import own_node
from lockstep.roles.operations.operation import Commands, operation, refusal


@operation("the node check has not cordoned the node, or still finds a failure")
def uncordoned(plan: NodePlan) -> Commands:
    """Run the node check on a node that it has cordoned and that is healthy.

    While the API server does not answer, nothing is done: nobody else can uncordon the node then.

    Args:
        plan: the plan of the node.
    """
    if not host.state.is_executing or "node_check" not in plan.roles:
        return
    try:
        reason = " ".join(own_node(plan)[1].stdout_lines).partition(" ")[2]
        if not reason.startswith(OURS):
            return
        this = host.state.inventory.get_host(host.name)
        healthy = Conversation(this, connector_arguments(host)).ask(is_healthy())
    except Unanswered as error:
        yield refusal(f"{plan.name} failed: {error}")
        return
    if healthy:
        yield f"{HEALTH_CHECK} health"
    else:
        host.log_styled(f"{plan.name} stays cordoned by its own node check: {reason}", fg="yellow")
