"""Files that every worker must have before the controller's configuration names them."""

from __future__ import annotations

from typing import Any

from gevent.pool import Pool
from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State

from lockstep.facts.files import file_states
from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.facts.slurm import newly_named
from lockstep.files import ManagedFile
from lockstep.plan import NodePlan
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.operation import CommandsOrReason, ask, fail, operation
from lockstep.spec import NodeRole


@operation()
def on_every_worker(plan: NodePlan, path: str, named_in: str) -> CommandsOrReason:
    """Fail on this head node if its configuration is about to name a file that a worker lacks.

    Args:
        plan: the plan of the head node.
        path: the path of the file on the workers.
        named_in: the head node's file that will contain this path.
    """
    if ask(newly_named(path, named_in)):
        yield FunctionCommand(_all_have, (plan, path, connector_arguments(host)), {})
    return f"{named_in} already names {path}, or no job has run yet"


@operation()
def files_after_workers(
    plan: NodePlan, files: tuple[ManagedFile, ...], path: str, plugin: str
) -> CommandsOrReason:
    """Write this head node's files once every worker has the file at ``path``.

    Args:
        plan: the plan of the head node.
        files: the files for ``managed_files``.
        path: the path of the file, on the head node and on the workers.
        plugin: the plugin that the file names.
    """
    # The state of the workers is known only when the operation is executed.
    if host.state.is_executing and ask(newly_named(plugin, path)):
        lacking = _lacking(host.state, plan, path, connector_arguments(host))
        if lacking:
            host.log_styled(f"left out: {_why(lacking, path, plan)}", fg="yellow")
            return f"{path} is written once every worker has it"
    yield from managed_files._inner(files=files)
    return ""


def _all_have(
    state: State, host: Host, plan: NodePlan, path: str, arguments: dict[str, Any]
) -> bool:
    lacking = _lacking(state, plan, path, arguments)
    return not lacking or fail(host, _why(lacking, path, plan))


def _lacking(state: State, plan: NodePlan, path: str, arguments: dict[str, Any]) -> list[str]:
    workers = [name for name, other in plan.cluster.nodes.items() if other.role is NodeRole.WORKER]

    def has(name: str) -> bool:
        other: Host = state.inventory.get_host(name)
        if other in state.failed_hosts and not other.connected:  # this run already waited for it
            return False
        try:
            return Conversation(other, arguments).ask(file_states((path,)))[path] is not None
        except Unanswered:  # an unknown file counts as missing
            return False

    # Not state.pool: this greenlet runs in it, and greenlets like this one may fill it.
    answers = Pool(state.config.PARALLEL).map(has, workers)
    return [name for name, there in zip(workers, answers, strict=True) if not there]


def _why(lacking: list[str], path: str, plan: NodePlan) -> str:
    return (
        f"{', '.join(lacking)}: {path} is missing, or the node did not answer; every worker needs "
        "this file before the head's configuration names it. Next: run "
        f"{plan.cluster.deploy_command('cluster')}, without --limit. If a worker "
        "stays unreachable, remove it from the description"
    )
