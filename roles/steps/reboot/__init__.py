"""Reboots the nodes that need it, a few at a time: drains, reboots, checks and resumes them.

Owns     the reboot of a node, and the change of an installed driver just before it; the node's
         state in Slurm or Kubernetes, but only if this rollout drained the node.
Restart  the whole node, once no jobs are running on it; no job of Slurm is killed, and pods are
         evicted as their disruption budgets allow.
Stops    at the first node that fails: it stays drained, and no further node is touched. A node
         that an earlier reboot did not help is not rebooted; it fails, and the rollout goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, deploy

from lockstep.facts.boot import hugepages_state, next_arguments
from lockstep.facts.driver import (
    LoadedDriver,
    boot_kernels,
    loaded_driver,
    rdma_driver_waits,
)
from lockstep.facts.files import FileState, file_states
from lockstep.facts.gpus import GpuSettings, GpuStates, gpu_states
from lockstep.facts.packages import package_state
from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, HoldState, Unanswered, boot_state, hold_state
from lockstep.files import managed
from lockstep.plan import NodePlan, fabric
from lockstep.plan.driver import Driver
from lockstep.plan.nvidia import MODPROBE
from lockstep.plan.reboot import Pending, Seen, absent, pending
from lockstep.roles.operations.operation import Commands, ask, operation, refusal
from lockstep.roles.operations.packages import BROKEN
from lockstep.roles.operations.run import begins
from lockstep.roles.steps.reboot.decision import Decision
from lockstep.roles.steps.reboot.pods import Pods
from lockstep.roles.steps.reboot.rollout import Rollout, rollout_of
from lockstep.roles.steps.reboot.turn import Turn
from lockstep.spec import NodeRole
from lockstep.spec.hardware import Gpu

Reader = Callable[..., Any]
MEMBER = "kubernetes_node"
"""The role of all nodes of Kubernetes."""


def decide(read: Reader, plan: NodePlan) -> Decision:
    """Read a node's state and decide what to do when its turn comes.

    Args:
        read: a function that asks the node a question and returns the answer.
        plan: the plan of the node.
    """
    hardware = plan.hardware
    boots = hardware.hardware.boot_loader != "none"
    boot = read(boot_state)
    # Read only if arguments are missing: this fails if it is unclear what boots next.
    arguments = plan.system.kernel_args if boots and plan.manages("boot_loader") else ()
    menu = read(next_arguments) if absent(arguments, boot.cmdline) else ()
    wanted = hardware.hugepages if boots and plan.manages("hugepages") else {}
    pages = read(hugepages_state).counts if wanted else {}
    # Jobs are no less at stake if the site manages Slurm itself.
    worker = "slurm_worker" in plan.managed_or_not
    driver = plan.software.driver
    installed = _installed(read, driver) if driver else {}
    loaded = read(loaded_driver) if driver else LoadedDriver()
    # A machine without a kernel of its own cannot set the parameters.
    parameters = loaded.parameters if driver and driver.flavour else {}
    gpu = plan.gpu
    gpus: GpuStates = read(gpu_states) if gpu else GpuStates()
    return Decision(
        pending(
            arguments,
            wanted,
            Seen(
                boot.cmdline,
                menu,
                pages,
                None if boot.wanted_by is None else " ".join(boot.wanted_by),
                installed,
                loaded.version,
                loaded.flavour,
                parameters,
                _parameters_written(read, plan) if parameters else False,
                read(boot_kernels) if boots else None,
                modes=tuple(one.uuid for one in gpus.every if gpu and _mode_waits(one, gpu)),
                layouts=tuple(one.uuid for one in gpus.every if gpu and _layout_waits(one, gpu)),
                resets=gpus.to_reset,
                rdma=read(rdma_driver_waits) if fabric.is_declared(plan) else "",
                in_vain=boot.in_vain,
            ),
            driver,
        ),
        boot.boot,
        read(hold_state, node=plan.name) if worker else HoldState(),
        worker,
    )


def _mode_waits(board: GpuSettings, gpu: Gpu) -> bool:
    wanted = gpu.ecc_wanted
    ecc, mig = ("Enabled" if one else "Disabled" for one in (wanted, bool(gpu.mig)))
    waits = wanted is not None and board.ecc_pending == ecc != board.ecc
    return (board.ecc is not None and waits) or (
        board.mig is not None and board.mig_pending == mig != board.mig
    )


def _layout_waits(board: GpuSettings, gpu: Gpu) -> bool:
    return bool(gpu.mig) and board.mig == "Enabled" and board.mig_devices != tuple(sorted(gpu.mig))


def _installed(read: Reader, driver: Driver) -> dict[str, str]:
    state = read(package_state, names=(*driver.packages, *driver.replaced))
    return {**state.installed, **dict.fromkeys(state.unfinished, BROKEN)}


def _parameters_written(read: Reader, plan: NodePlan) -> bool:
    (planned,) = (one for one in managed(plan, None, "nvidia_driver") if one.path == MODPROBE)
    found: FileState | None = read(file_states, paths=(MODPROBE,))[MODPROBE]
    return found is not None and found.sha256 == planned.sha256


@operation()
def rebooted(plan: NodePlan) -> Commands:
    """Wait for this node's turn, then decide, and reboot the node if necessary.

    Args:
        plan: the plan of the node.
    """
    state, name = host.state, plan.name
    if not state.is_executing:  # --dry, or before the prompt: show what would be done
        try:
            decision = decide(lambda make, **about: ask(make(**about)), plan)
        except Unanswered:  # pyinfra has shown the reason and failed the host
            return
        host.log(decision.why(plan))
        if not decision.nothing:
            yield refusal("never executed")
        return
    this: Host = state.inventory.get_host(name)
    rollout = rollout_of(state)
    head = plan.role is NodeRole.HEAD
    at_once = 1 if head else plan.spec.reboots.at_once
    with rollout.turn(name, list(plan.cluster.nodes).index(name), at_once) as stopped:
        if stopped:
            host.log_styled(f"left alone: {stopped}", fg="yellow")
            return
        arguments = connector_arguments(host)
        talk = Conversation(this, arguments)
        member = plan.manages(MEMBER) and plan.runs_kubelet
        pods = Pods(state, plan, arguments, this.log_styled) if member else None
        try:
            decision = _decide_now(talk, plan)
            # An earlier rollout may have rebooted the node, but not uncordoned it.
            cordoned = pods is not None and pods.look().ours
        except Unanswered as unanswered:
            # Only this host fails: it was not changed, and the others do not depend on it.
            yield refusal(f"left alone: {name} could not be read: {unanswered}")
            return
        if decision.nothing and not cordoned:
            host.log(decision.why(plan))
            return
        if head and (first := _workers_to_come(state, rollout)):
            yield refusal(
                f"left alone: workers go first, and these have not had their turn: {first}. "
                "Next: run without --serial and --no-wait",
            )
            return

        def look() -> Pending:
            return decide(talk.read, plan).pending

        turn = Turn(this, plan, talk, decision, rollout, look, pods)
        yield FunctionCommand(lambda state, host: turn.run(), (), {})


def _decide_now(talk: Conversation, plan: NodePlan) -> Decision:
    try:
        return decide(talk.read, plan)
    except Unanswered:  # a session that was idle for hours may be dead: retry in a new one
        return decide(talk.read, plan)


def _workers_to_come(state: State, rollout: Rollout) -> str:
    waiting = [
        other.name
        for other in state.inventory.get_active_hosts()
        if other.data.plan.role is NodeRole.WORKER and other.name not in rollout.done
    ]
    return ", ".join(sorted(waiting))


@deploy("Reboot")
def apply(plan: NodePlan) -> None:
    """Reboot the node, when its turn comes, if a reboot is pending."""
    if begins(host.state, plan.cluster):
        rebooted(name="Rollout", plan=plan)
