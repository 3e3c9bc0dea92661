"""Breaks the lock of a cluster that a run on another machine has left on the first head.

Owns     the content of /run/lockstep/lock on the first head.
Restart  nothing.
"""

from __future__ import annotations

import shlex
import time

from pyinfra import host
from pyinfra.api import Host, StringCommand

from lockstep import lock
from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.plan import NodePlan
from lockstep.roles.operations import run
from lockstep.roles.operations.operation import CommandsOrReason, operation, refusal


@operation()
def unlocked(plan: NodePlan) -> CommandsOrReason:
    """Say who has the lock, and empty its file.

    Args:
        plan: the plan of the node that keeps the lock.
    """
    file = shlex.quote(f"{run.FOLDER}/{run.NAME}")
    this: Host = host.state.inventory.get_host(host.name)
    try:
        talk = Conversation(this, connector_arguments(host))
        succeeded, output = talk.say(f"[ ! -e {file} ] || cat {file}")
    except Unanswered as unanswered:
        yield refusal(f"{plan.name} was not unlocked: {unanswered}")
        return ""
    if not succeeded:
        said = " ".join(output.stderr_lines).strip() or "no message"
        yield refusal(f"{plan.name} was not unlocked: {file}: {said}")
        return ""
    found = "\n".join(output.stdout_lines).strip()
    if not found:
        return f"no run has locked {plan.cluster.spec.name}"
    holder = lock.parsed(found)
    host.log_styled(
        "the lock of this run is broken; if the run goes on, it is not stopped:\n"
        f"{holder.described(time.time()) if holder else found}",
        fg="yellow",
    )
    yield StringCommand(f": >{file}")
    return ""


def apply(plan: NodePlan) -> None:
    """Break the lock of the cluster, on the node that keeps it."""
    if plan.name == run.keeper(plan.cluster):
        unlocked(name="Lock", plan=plan)
