"""Reboots what waits for it: a few nodes at a time, each drained, checked and put back.

Owns     the boot of a node, and the change of an installed driver just before it; the node's state
         in Slurm only where this rollout drained it.
Restart  the whole node, when nothing runs on it any more; no job is ended.
Stops    at the first node that fails: it stays drained, and no further node is touched. One that
         is not rebooted again, for what a reboot did not end, fails alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, deploy

from lockstep.facts.boot import BootEntries, BootLoader, hugepages_state
from lockstep.facts.files import FileState, file_states
from lockstep.facts.gpus import (
    BoardsToReset,
    Gpus,
    GpuSettings,
    LoadedDriver,
    LoadedModule,
    LoadedModuleState,
)
from lockstep.facts.kernels import Kernels
from lockstep.facts.packages import package_state
from lockstep.facts.reading import ask
from lockstep.facts.reboot import Boot, Conversation, Hold, HoldState, RebootedInVain, Unanswered
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.driver import Driver
from lockstep.plan.nvidia import MODPROBE
from lockstep.plan.reboot import Seen, pending
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.packages import BROKEN
from lockstep.roles.operations.service import connector_arguments
from lockstep.roles.steps.reboot.decision import Decision
from lockstep.roles.steps.reboot.rollout import Rollout, rollout_of
from lockstep.roles.steps.reboot.turn import Turn
from lockstep.spec import Role
from lockstep.spec.hardware import Gpu

Reader = Callable[..., Any]


def decide(read: Reader, plan: NodePlan) -> Decision:
    """Read a node and say what its turn has to do.

    Args:
        read: reads a fact.
        plan: of the node.
    """
    hardware = plan.hardware
    boots = hardware.hardware.boot_loader != "none"
    boot = read(Boot)
    menu = _menu(read, plan) if boots else ()
    pages = read(hugepages_state).counts if boots and hardware.hugepages else {}
    worker = "slurm_worker" in plan.capabilities
    driver = plan.driver
    installed = _installed(read, driver) if driver else {}
    version = read(LoadedDriver) if driver else ""
    module = read(LoadedModule) if driver and driver.flavour else LoadedModuleState()
    gpu = plan.gpu
    boards: tuple[GpuSettings, ...] = read(Gpus).every if gpu else ()
    return Decision(
        pending(
            plan.kernel_args if boots else (),
            hardware.hugepages if boots else {},
            Seen(
                boot.cmdline,
                menu,
                pages,
                boot.marker,
                installed,
                version,
                module.flavour,
                module.parameters,
                _parameters_written(read, plan) if module.parameters else False,
                read(Kernels) if boots else None,
                modes=tuple(one.uuid for one in boards if gpu and _mode_waits(one, gpu)),
                layouts=tuple(one.uuid for one in boards if gpu and _layout_waits(one, gpu)),
                resets=read(BoardsToReset) if gpu else (),
                in_vain=read(RebootedInVain),
            ),
            driver,
        ),
        boot.boot,
        read(Hold, node=plan.name) if worker else HoldState(),
        worker,
    )


def _mode_waits(board: GpuSettings, gpu: Gpu) -> bool:
    ecc, mig = ("Enabled" if wanted else "Disabled" for wanted in (gpu.ecc, bool(gpu.mig)))
    return (board.ecc is not None and board.ecc_pending == ecc != board.ecc) or (
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


def _menu(read: Reader, plan: NodePlan) -> tuple[str, ...]:
    """Return the kernel arguments of the next boot, from where this system's boot loader has them.

    Which entry comes next is the boot loader's own business: an argument counts when all have it.
    """
    if plan.cluster.release.boot_loader == "grub_drop_in":
        args: tuple[str, ...] = read(BootLoader, files=()).args
        return args
    first, *others = read(BootEntries) or ((),)
    return tuple(arg for arg in first if all(arg in other for other in others))


def _refuse(host: Host, why: str) -> FunctionCommand:
    """Return a command that fails on this host alone: an exception would end the run for all."""

    def refused(state: State, host: Host) -> bool:
        host.log_styled(why, fg="red", bold=True)
        return False

    return FunctionCommand(refused, (), {})


@operation()
def rebooted(plan: NodePlan) -> Generator[FunctionCommand, None, None]:
    """Wait for this node's turn, decide then, and take the node through its reboot.

    Args:
        plan: of the node.
    """
    state, name = host.state, plan.name
    if not state.is_executing:  # --dry, or before the prompt: what would be done now
        try:
            decision = decide(_fact, plan)
        except Unanswered:  # pyinfra has said why, and failed the host
            return
        host.log(decision.why(plan))
        if not decision.nothing:
            yield FunctionCommand(lambda state, host: False, (), {})  # never executed
        return
    this: Host = state.inventory.get_host(name)
    rollout = rollout_of(state)
    head = plan.role is Role.HEAD
    at_once = 1 if head else plan.spec.reboots.at_once
    with rollout.turn(name, list(plan.cluster.nodes).index(name), at_once) as stopped:
        if stopped:
            host.log_styled(f"left alone: {stopped}", fg="yellow")
            return
        talk = Conversation(this, connector_arguments(host))
        try:
            decision = _decide_now(talk, plan)
        except Unanswered as unanswered:
            # It fails alone: nothing was done to it, and others do not depend on it.
            yield _refuse(this, f"left alone: it could not be read: {unanswered}")
            return
        if decision.nothing:
            host.log(decision.why(plan))
            return
        if head and (first := _workers_to_come(state, rollout)):
            yield _refuse(
                this,
                f"left alone: workers go first, and {first} had no turn yet. "
                "Next: run without --serial and --no-wait",
            )
            return
        turn = Turn(this, plan, talk, decision, rollout, lambda: decide(talk.read, plan).pending)
        yield FunctionCommand(lambda state, host: turn.run(), (), {})


def _decide_now(talk: Conversation, plan: NodePlan) -> Decision:
    try:
        return decide(talk.read, plan)
    except Unanswered:  # a session that idled for hours may be dead: the next one is new
        return decide(talk.read, plan)


def _fact(kind: Any, **arguments: object) -> Any:
    if not isinstance(kind, type):  # it makes a question of them
        return ask(host, kind(**arguments))
    value: Any = host.get_fact(kind, **arguments)
    if value is None:
        raise Unanswered(kind.__name__)
    return value


def _workers_to_come(state: State, rollout: Rollout) -> str:
    waiting = [
        other.name
        for other in state.inventory.get_active_hosts()
        if other.data.plan.role is Role.WORKER and other.name not in rollout.done
    ]
    return ", ".join(sorted(waiting))


@deploy("Reboot")
def apply(plan: NodePlan) -> None:
    """Reboot the node when it waits for it and its turn has come."""
    rebooted(name="Rollout", plan=plan)
