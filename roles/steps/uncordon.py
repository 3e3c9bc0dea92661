"""Uncordons a worker of Kubernetes that its own node check cordoned, once it is healthy again.

By itself, the node check looks only every five minutes. So each deploy of workers, also one of a
single role, starts it after the roles.

Owns     nothing: the node check changes the node.
Restart  nothing.
"""

from __future__ import annotations

import shlex

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State

from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.facts.slurm import OURS
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import CORDONED, KUBELET_CONF
from lockstep.plan.slurm_files import HEALTH_CHECK
from lockstep.roles.operations.kubernetes_member import ANSWER_S, OWN_KUBECTL
from lockstep.roles.operations.operation import Commands, operation, refusal

SHOWN = f"{{.spec.unschedulable}} {{.metadata.annotations['{CORDONED}']}}"


@operation("the node check has not cordoned the node")
def uncordoned(plan: NodePlan) -> Commands:
    """Run the node check on a node that it has cordoned; it uncordons a healthy node.

    While the API server does not answer, nothing is done: the node check could not uncordon the
    node either.

    Args:
        plan: the plan of the node.
    """
    if not host.state.is_executing or "node_check" not in plan.roles:
        return
    talk = Conversation(host.state.inventory.get_host(host.name), connector_arguments(host))
    try:
        if not _reason(talk, plan.name):
            return
        talk.say(f"{HEALTH_CHECK} health")  # its exit status is always 0
        reason = _reason(talk, plan.name)
    except Unanswered as error:
        yield refusal(f"{plan.name} failed: {error}")
        return
    if reason:
        host.log_styled(
            f"{plan.name} stays cordoned by its own node check ({reason}). Next: on {plan.name}: "
            f"{HEALTH_CHECK} status",
            fg="yellow",
        )
    else:
        yield FunctionCommand(_said, ("uncordoned: its node check finds no failure",), {})


def _said(state: State, host: Host, text: str) -> bool:
    host.log_styled(text, fg="green")
    return True


def _reason(talk: Conversation, name: str) -> str:
    """Return why the node check has cordoned a node; "" if it has not, or nobody answers.

    Raises:
        Unanswered: the node did not answer.
    """
    get = f"{OWN_KUBECTL} get node {shlex.quote(name)} --ignore-not-found"
    # A node without this file has not joined yet.
    answered, output = talk.say(
        f"test ! -e {KUBELET_CONF} || timeout {ANSWER_S} {get} -o jsonpath={shlex.quote(SHOWN)}"
    )
    if not answered:
        said = " ".join(output.stderr_lines).strip()[:200] or f"no answer within {ANSWER_S} s"
        host.log(f"unknown whether its node check has cordoned it: {said}")
    cordoned, _, reason = " ".join(output.stdout_lines).partition(" ")
    return reason if answered and cordoned and reason.startswith(OURS) else ""
