"""Compares new and repaired workers with the nodes of their class before Slurm resumes them.

Owns     the state in Slurm of workers that a deploy has drained for the comparison.
Restart  nothing.
"""

from __future__ import annotations

import shlex
import threading
import time
from typing import Any
from weakref import WeakKeyDictionary

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State

from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, HoldState, Unanswered, hold_state
from lockstep.facts.slurm import AWAITS_REBOOT, NOT_COMPARED, OURS, is_healthy, slurm_node
from lockstep.plan import NodePlan
from lockstep.roles.operations.comparison import (
    compares,
    drain,
    repaired,
    wait_for_comparison,
    waiting,
)
from lockstep.roles.operations.operation import Commands, ask, operation, refusal
from lockstep.roles.steps.reboot.decision import HELD, OUT
from lockstep.roles.steps.reboot.objections import (
    FINGERPRINT,
    against,
    as_text,
    check,
    in_doubt,
    reason_of,
)

PENDING = "pending reboot"
"""Status of a finding that a reboot resolves (docs/outputs.md)."""
SETTLE_S = 60.0
"""Seconds that a service which the deploy has just started may take, such as an exporter."""
CHECK_EVERY_S = 10.0
Findings = list[dict[str, Any]]
_found: WeakKeyDictionary[State, tuple[int, Findings]] = WeakKeyDictionary()
"""The number of the last check of a run, and its findings."""
_lock = threading.Lock()


def _findings(state: State, inventory: str, after: int = 0) -> tuple[int, Findings]:
    """Return the findings about all workers that wait, and the number of the check.

    The first caller reads the nodes, for all others as well.

    Args:
        state: the run.
        inventory: the description.
        after: the number of the last check that the caller knows.

    Raises:
        Unanswered: the check itself failed.
    """
    with _lock:
        number, found = _found.get(state, (0, []))
        if number <= after:
            number, found = number + 1, check(inventory, ",".join(sorted(waiting(state))))
            _found[state] = number, found
        return number, found


def _settled(state: State, inventory: str, name: str) -> Findings:
    """Return the findings once a worker has none, or after ``SETTLE_S``.

    Only findings of rules settle by themselves; the configuration of a node does not.

    Raises:
        Unanswered: the check itself failed.
    """
    ends = time.monotonic() + SETTLE_S
    number, found = _findings(state, inventory)
    while time.monotonic() < ends and any(map(_may_settle, against(found, name))):
        time.sleep(CHECK_EVERY_S)
        number, found = _findings(state, inventory, number)
    return found


def _may_settle(finding: dict[str, Any]) -> bool:
    return not finding["rule"].startswith(FINGERPRINT) and finding["status"] != PENDING


@operation("the health check has not drained the node")
def noted(plan: NodePlan) -> Commands:
    """Note whether the health check has drained the node: a repair may end this.

    Args:
        plan: the plan of the node.
    """
    yield from ()
    if compares() and "slurm_worker" in plan.roles:
        state = ask(slurm_node(plan.name))
        if "DRAIN" in state.states and state.reason.startswith(OURS):
            wait_for_comparison(after_repair=True)


@operation("no worker waits to be compared with its class")
def compared(plan: NodePlan) -> Commands:
    """Resume a worker that was drained, unless a comparison with its class names it as wrong.

    Args:
        plan: the plan of the node.
    """
    name, inventory = plan.name, plan.cluster.inventory
    again = f"pyinfra -y {inventory} deploys/worker.py --limit {name}"
    # Before the run, nobody knows which workers will wait.
    if not host.state.is_executing or host.name not in waiting(host.state):
        return
    this: Host = host.state.inventory.get_host(host.name)
    talk = Conversation(this, connector_arguments(host))
    try:
        hold: HoldState = talk.ask(hold_state(name))
        concerned = _concerned(hold, talk, after_repair=host.name in repaired(host.state))
    except Unanswered as unanswered:
        yield refusal(f"{name} was not compared: {unanswered}. Next: run this again")
        return
    if not concerned:
        return
    try:
        found = _settled(host.state, inventory, name)
    except Unanswered as unanswered:
        yield refusal(
            f"{name} was not compared with its class, so its state was not changed: {unanswered}. "
            f"Next: fix this, then run: {again}"
        )
        return
    wrong = against(found, name)
    pending = [one for one in wrong if one["status"] == PENDING]
    wrong = [one for one in wrong if one not in pending]
    if doubt := in_doubt(plan, "class", found, "This does not keep the node drained. "):
        host.log_styled(doubt, fg="yellow")
    if wrong:
        reason = reason_of(NOT_COMPARED, wrong)
        if hold.reason != reason or not hold.states & HELD:
            yield drain(name, reason)
        yield refusal(
            f"{name} stays drained, because it differs from its class: {as_text(wrong)}. Next: "
            f"repair it, then run: {again}"
        )
    elif not hold.states & HELD:
        return  # the health check has resumed it meanwhile
    elif pending:
        if hold.reason != AWAITS_REBOOT:
            yield drain(name, AWAITS_REBOOT)
        host.log_styled(
            f"{name} stays drained until it is rebooted. Next: "
            f"pyinfra -y {inventory} deploys/reboot.py --limit {name}",
            fg="yellow",
        )
    else:
        yield f"timeout 30 scontrol update NodeName={shlex.quote(name)} State=RESUME"
        yield _saying("resumed: the comparison with its class found no fault", "green")


def _concerned(hold: HoldState, talk: Conversation, *, after_repair: bool) -> bool:
    """Return whether to compare a worker: not if somebody else drained it, or it is still broken.

    Raises:
        Unanswered: the node did not say whether it is healthy.
    """
    if hold.reason.startswith(NOT_COMPARED):
        return True
    if hold.reason.startswith(OURS):
        return talk.ask(is_healthy())
    return after_repair and bool(hold.states) and not hold.states & OUT


def _saying(text: str, colour: str) -> FunctionCommand:
    """Return a command that shows a text once the commands before it have succeeded."""

    def shown(state: State, host: Host) -> bool:
        host.log_styled(text, fg=colour)
        return True

    return FunctionCommand(shown, (), {})
