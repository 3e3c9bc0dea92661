"""What jobs count on once the controller names it: on every worker first, then it is named."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from gevent.pool import Pool
from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, StringCommand

from lockstep.facts.files import file_states
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.facts.slurm import NewlyNamed
from lockstep.files import ManagedFile
from lockstep.plan import NodePlan
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.service import connector_arguments
from lockstep.spec import Role


@operation()
def on_every_worker(
    plan: NodePlan, path: str, named_in: str
) -> Generator[FunctionCommand, None, None]:
    """Stop this head before it names a file that a worker does not have; jobs run there already.

    Args:
        plan: of the head.
        path: of the file, on the workers.
        named_in: file of the head that names it, once it does.
    """
    if not host.get_fact(NewlyNamed, what=path, named_in=named_in):
        host.noop(f"{named_in} names {path} already, or no job has run yet")
        return
    yield FunctionCommand(_all_have, (plan, path, connector_arguments(host)), {})


@operation()
def files_after_workers(
    plan: NodePlan, files: tuple[ManagedFile, ...], path: str, plugin: str
) -> Generator[StringCommand, None, None]:
    """Bring this head's files, once every worker has the one of the same path.

    Args:
        plan: of the head.
        files: as ``managed_files`` takes them.
        path: of the file that waits for the workers'.
        plugin: what it names.
    """
    # Only when it is executed is it known what the workers have.
    if host.state.is_executing and host.get_fact(NewlyNamed, what=plugin, named_in=path):
        lacking = _lacking(host.state, plan, path, connector_arguments(host))
        if lacking:
            host.log_styled(f"left out: {_why(lacking, path, plan)}", fg="yellow")
            host.noop(f"{path} waits for the workers")
            return
    yield from managed_files._inner(files=files)


def _all_have(
    state: State, host: Host, plan: NodePlan, path: str, arguments: dict[str, Any]
) -> bool:
    lacking = _lacking(state, plan, path, arguments)
    if lacking:
        host.log_styled(_why(lacking, path, plan), fg="red", bold=True)
    return not lacking


def _lacking(state: State, plan: NodePlan, path: str, arguments: dict[str, Any]) -> list[str]:
    workers = [name for name, other in plan.cluster.nodes.items() if other.role is Role.WORKER]

    def has(name: str) -> bool:
        other: Host = state.inventory.get_host(name)
        if other in state.failed_hosts and not other.connected:  # this run has waited for it
            return False
        return _has(Conversation(other, arguments), path)

    # Not state.pool: this greenlet is one of it, and it may be full of such.
    answers = Pool(state.config.PARALLEL).map(has, workers)
    return [name for name, there in zip(workers, answers, strict=True) if not there]


def _has(talk: Conversation, path: str) -> bool:
    try:
        return talk.ask(file_states((path,)))[path] is not None
    except Unanswered:  # not known is not there
        return False


def _why(lacking: list[str], path: str, plan: NodePlan) -> str:
    return (
        f"{', '.join(lacking)}: no {path} there, or no answer; what jobs count on has to be on all "
        f"workers first. Next: pyinfra -y {plan.cluster.inventory} deploys/cluster.py, without "
        "--limit; a worker that stays away has to leave the description"
    )
