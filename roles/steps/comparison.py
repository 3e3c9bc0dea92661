"""Compares new and repaired workers with the nodes of their class before Slurm resumes them.

Owns     the state in Slurm of workers that a deploy has drained for the comparison.
Restart  nothing.
"""

from __future__ import annotations

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
from lockstep.report import fold
from lockstep.roles.operations.comparison import (
    compares,
    drain,
    repaired,
    resume,
    unless_taken_out,
    wait_for_comparison,
    waiting,
)
from lockstep.roles.operations.operation import Commands, ask, fail, operation, refusal
from lockstep.roles.operations.workers_alone import lacks_controller
from lockstep.roles.steps.reboot.decision import HELD, OUT
from lockstep.roles.steps.reboot.objections import (
    PENDING,
    against,
    as_text,
    check,
    in_doubt,
    may_settle,
    reason_of,
)

SETTLE_S = 60.0
"""Seconds that a service which the deploy has just started may take, such as an exporter."""
CHECK_EVERY_S = 10.0
Findings = list[dict[str, Any]]
_found: WeakKeyDictionary[State, tuple[int, frozenset[str], Findings | Unanswered]] = (
    WeakKeyDictionary()
)
"""The number of the last check of a run, its workers, and its findings, or why it failed."""
_lock = threading.Lock()


def _findings(state: State, inventory: str, name: str, after: int = 0) -> tuple[int, Findings]:
    """Return the findings about all workers that wait, and the number of the check.

    The first caller reads the nodes, for all others as well. If its check fails, it fails for all
    of them. In a deploy that goes in steps, each step has its own check: the workers of the steps
    before it have been compared.

    Args:
        state: the run.
        inventory: the description.
        name: the worker of the caller.
        after: the number of the last check that the caller knows.

    Raises:
        Unanswered: the check itself failed.
    """
    with _lock:
        number, workers, found = _found.get(state, (0, frozenset[str](), []))
        if number <= after or name not in workers:
            number += 1
            now = {host.name for host in state.inventory.get_active_hosts()}
            elsewhere = {host.name for host in state.inventory} - now
            workers = frozenset(waiting(state) - elsewhere)
            try:
                found = check(inventory, fold(workers))
            except Unanswered as unanswered:
                found = unanswered
            _found[state] = number, workers, found
    if isinstance(found, Unanswered):
        raise Unanswered(str(found)) from found
    return number, found


def _settled(state: State, inventory: str, name: str) -> Findings:
    """Return the findings once a worker has none, or ``SETTLE_S`` after the first check.

    Only findings of rules settle by themselves; the configuration of a node does not.

    Raises:
        Unanswered: the check itself failed.
    """
    number, found = _findings(state, inventory, host.name)
    ends = time.monotonic() + SETTLE_S
    while time.monotonic() < ends and any(map(may_settle, against(found, name))):
        time.sleep(CHECK_EVERY_S)
        number, found = _findings(state, inventory, host.name, number)
    return found


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
    again = f"{plan.cluster.deploy_command('worker')} --limit {name}"
    # Before the run, nobody knows which workers will wait.
    if not host.state.is_executing or host.name not in waiting(host.state):
        return
    this: Host = host.state.inventory.get_host(host.name)
    talk = Conversation(this, connector_arguments(host))
    try:
        hold: HoldState = talk.ask(hold_state(name))
        if not hold.states:
            yield from _without_controller(plan)
            return
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
            yield _update(talk, name, drain(name, reason))
        yield refusal(
            f"{name} stays drained, because it differs from its class: {as_text(wrong)}. Next: "
            f"repair it, then run: {again}"
        )
    elif not hold.states & HELD:
        return  # the health check has resumed it meanwhile
    elif pending:
        if hold.reason != AWAITS_REBOOT:
            yield _update(talk, name, drain(name, AWAITS_REBOOT))
        host.log_styled(
            f"{name} stays drained until it is rebooted. Next: "
            f"{plan.cluster.deploy_command('reboot')} --limit {name}",
            fg="yellow",
        )
    else:
        equal = "resumed: the comparison with its class found no fault"
        yield _update(talk, name, resume(name), equal)


def _without_controller(plan: NodePlan) -> Commands:
    """Fail if the controller does not answer, unless it is not deployed yet."""
    yield from ()
    if not lacks_controller(plan):
        controller = plan.cluster.controller_host
        yield refusal(
            f"{plan.name} was not compared: slurmctld on {controller} does not answer. Next: run "
            f"systemctl status slurmctld on {controller} and repair it, then run: "
            f"{plan.cluster.deploy_command('worker')} --limit {plan.name}"
        )


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


def _update(talk: Conversation, name: str, update: str, done: str = "") -> FunctionCommand:
    """Return a command that changes the state of a node, unless somebody has taken it out.

    The check may take minutes. An administrator can drain the node meanwhile.

    Args:
        talk: the conversation with the node.
        name: the node.
        update: the command for its shell.
        done: the text that is shown after the update.
    """

    def updated(state: State, host: Host) -> bool:
        try:
            succeeded, output = talk.say(unless_taken_out(name, update))
        except Unanswered as unanswered:
            return fail(host, f"{name} was not changed in Slurm: {unanswered}")
        if not succeeded:
            said = " ".join((*output.stderr_lines, *output.stdout_lines)).strip()
            why = said or "no answer from slurmctld within 30 s"
            return fail(host, f"{name} was not changed in Slurm: {why}. Next: run this again")
        if left := " ".join(output.stdout_lines).strip():
            host.log_styled(f"{name} was changed in Slurm meanwhile, so it {left}", fg="yellow")
        elif done:
            host.log_styled(done, fg="green")
        return True

    return FunctionCommand(updated, (), {})
