"""Compares new and repaired workers with the nodes of their class before Slurm resumes them.

Owns     the state in Slurm of workers that a deploy has drained for the comparison.
Restart  nothing.
"""

from __future__ import annotations

import shlex
import threading
from typing import Any
from weakref import WeakKeyDictionary

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State

from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, HoldState, Unanswered, hold_state
from lockstep.facts.slurm import AWAITS_REBOOT, NOT_COMPARED
from lockstep.plan import NodePlan
from lockstep.roles.operations.comparison import drain, waiting
from lockstep.roles.operations.operation import Commands, operation, refusal
from lockstep.roles.steps.reboot.objections import check, objections
from lockstep.spec.names import expand

LONGEST_REASON = 200
"""Characters of a drain reason that are kept."""

PENDING = "pending reboot"
"""Status of a finding that a reboot resolves (docs/outputs.md)."""
Findings = list[dict[str, Any]]
_found: WeakKeyDictionary[State, Findings] = WeakKeyDictionary()
_lock = threading.Lock()


def _findings(state: State, inventory: str) -> Findings:
    """Return the findings about all workers that wait; the first caller of a run reads the nodes.

    Raises:
        Unanswered: the check itself failed.
    """
    with _lock:
        if state not in _found:
            _found[state] = check(inventory, ",".join(sorted(waiting(state))))
        return _found[state]


@operation("no worker waits to be compared with its class")
def compared(plan: NodePlan) -> Commands:
    """Resume a worker that was drained to be compared, if it equals its class.

    Args:
        plan: the plan of the node.
    """
    name = plan.name
    # Before the run, nobody knows which workers will wait.
    if not host.state.is_executing or host.name not in waiting(host.state):
        return
    this: Host = host.state.inventory.get_host(host.name)
    talk = Conversation(this, connector_arguments(host))
    try:
        hold: HoldState = talk.ask(hold_state(name))
    except Unanswered as unanswered:
        yield refusal(f"{name} was not compared: {unanswered}. Next: run this again")
        return
    if not hold.reason.startswith(NOT_COMPARED):
        return
    try:
        found = _findings(host.state, plan.cluster.inventory)
    except Unanswered as unanswered:
        yield refusal(f"{name} was not compared, so it stays drained: {unanswered}")
        return
    own = [one for one in found if name in expand(one["node"])]
    pending = [one for one in own if one["status"] == PENDING]
    against = objections([one for one in own if one not in pending], name, everything=True)
    if not (against or pending):
        yield f"timeout 30 scontrol update NodeName={shlex.quote(name)} State=RESUME"
        yield _saying("resumed: equal to its class", "green")
        return
    reason = _printable(f"{NOT_COMPARED} {against}") if against else AWAITS_REBOOT
    if hold.reason != reason:
        yield drain(name, reason)
    again = f"pyinfra -y {plan.cluster.inventory} deploys/"
    if against:
        yield refusal(
            f"{name} stays drained, because it differs from its class: {against}. Next: repair "
            f"it, then run: {again}worker.py --limit {name}"
        )
    else:
        host.log_styled(
            f"{name} stays drained until it is rebooted. Next: {again}reboot.py --limit {name}",
            fg="yellow",
        )


def _printable(reason: str) -> str:
    """Return a reason as Slurm keeps it: one line, without quotes, not longer than it shows."""
    return "".join(c for c in reason if c.isprintable() and c not in "'\"")[:LONGEST_REASON].strip()


def _saying(text: str, colour: str) -> FunctionCommand:
    """Return a command that shows a text once the commands before it have succeeded."""

    def said(state: State, host: Host) -> bool:
        host.log_styled(text, fg=colour)
        return True

    return FunctionCommand(said, (), {})
