"""A deploy that goes in steps: one node of each kind, which the check judges, then the others.

Owns     nothing on a node: it decides which hosts execute the operations of a deploy, and when.
Stops    at the first step in which a node fails, or has a finding that it did not have before.
"""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.exceptions import PyinfraError

from lockstep.fast.connector import read_anew
from lockstep.plan import NodePlan
from lockstep.roles.operations.operation import Commands, operation, refusal
from lockstep.roles.steps.canary.walk import Walk, walk_of


def begins(plan: NodePlan) -> None:
    """Let this run go in steps if the description (``deploys.canary``) asks for it.

    ``--data canary=yes`` and ``--data canary=no`` override the description. A deploy calls this
    before it adds operations, and ``checked`` after them.

    Args:
        plan: the plan of the node.

    Raises:
        PyinfraError: the value is neither yes nor no.
    """
    value = host.data.get("canary")
    if value is not None and str(value) not in ("yes", "no"):
        raise PyinfraError(f"--data canary={value}: expected yes or no")
    if plan.spec.deploys.canary if value is None else str(value) == "yes":
        if walk_of(host.state) is None:
            host.state.add_callback_handler(Walk(host.state, plan.cluster))  # type: ignore[no-untyped-call]  # pyinfra's
        # The canary is a node that needs a change. With -y, pyinfra would not look for changes.
        host.state.check_for_changes = True


def checked(name: str, plan: NodePlan) -> None:
    """End a part of a deploy: all hosts wait for each other, as at a barrier.

    In a deploy that goes in steps, each step executes the part up to here, is checked, and has to
    be without new findings before the next one begins.

    Args:
        name: the name of the operation.
        plan: the plan of the node.
    """
    no_new_findings(name=name, plan=plan)
    walk = walk_of(host.state)
    if walk is not None:
        walk.ends.add(host.op_hash_order[-1])


@operation("all hosts have reached this barrier")
def no_new_findings(plan: NodePlan) -> Commands:
    """Fail on a node that has a finding which it did not have before this deploy.

    Args:
        plan: the plan of the node.
    """
    read_anew(host)  # readings from other nodes may be out of date
    this = host.state.inventory.get_host(host.name)
    walk = walk_of(host.state) if host.state.is_executing else None
    why = "" if walk is None else walk.judged(this)
    if why:
        yield refusal(why)
    yield from ()
