"""A dry run (``pyinfra --dry``): which operations would change which node, and in which files.

Owns     nothing; it reads files of nodes, and prints after pyinfra has prepared the run.
Restart  nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.output import format_text

from lockstep.facts.files import files_and_texts
from lockstep.facts.reading import ask
from lockstep.fast.dry import context_of
from lockstep.files import ManagedFile
from lockstep.plan import NodePlan
from lockstep.preview import changes
from lockstep.question import Unreadable
from lockstep.report import alike, count, fold

_found: WeakKeyDictionary[State, dict[tuple[str, str], list[str]]] = WeakKeyDictionary()
"""Dry run -> name of the host and hash of the operation -> lines that show what would change."""


def begins(state: State) -> None:
    """Show what would change when a dry run ends; in another run, do nothing.

    Args:
        state: the run, which pyinfra prepares.
    """
    context = context_of(state)
    if context is not None and state not in _found:
        _found[state] = {}
        context.call_on_close(lambda: _show(state))


def installs(host: Host, packages: Iterable[str]) -> None:
    """Keep for the end of a dry run what the operation that decides now would install."""
    if host.state in _found and (named := ", ".join(packages)):
        _keep(host, [f"packages: {named}"])


def replaces(host: Host, files: Sequence[ManagedFile]) -> None:
    """Keep for the end of a dry run how the operation that decides now would change files.

    Args:
        host: the host.
        files: the planned files that differ.
    """
    if host.state not in _found:
        return
    shown = tuple(file.path for file in files if not file.secret)
    try:
        read = ask(host, files_and_texts(tuple(file.path for file in files), shown))
    except Unreadable as error:
        _keep(host, (f"{file.path}: not compared: {error}" for file in files))
        return
    _keep(host, (line for file in files for line in changes(file, *read[file.path])))


def _keep(host: Host, lines: Iterable[str]) -> None:
    # An operation may decide twice.
    _found[host.state][host.name, str(host.current_op_hash)] = [*lines]


def _show(state: State) -> None:
    """Print the operations that would change nodes; nodes with equal ones share their lines."""
    if not state.op_meta:
        return  # the run ended before it was prepared
    logger.info(format_text("--> Dry run: what would change on the nodes", "yellow"))
    of_nodes = {
        _name(host): tuple(_lines(state, host))
        for host in state.inventory
        if state.is_host_in_limit(host)
    }
    for lines, nodes in alike(of_nodes, lambda node: of_nodes[node]).items():
        operations = sum(not line.startswith(" ") for line in lines)
        logger.info(f"    {fold(nodes)}: {count(operations, 'operation') if lines else 'nothing'}")
        for line in lines:
            logger.info(f"        {line}")
    logger.info(
        "    What follows from these changes, such as restarts, is decided when they are made. "
        "No node was changed."
    )


def _lines(state: State, host: Host) -> Iterator[str]:
    for operation in state.get_op_order():  # type: ignore[no-untyped-call]  # pyinfra's
        data = state.ops[host].get(operation)
        if data is not None and data.operation_meta.will_change:
            yield ", ".join(sorted(state.get_op_meta(operation).names))
            for line in _found[state].get((host.name, operation), ()):
                yield f"    {line}"


def _name(host: Host) -> str:
    plan = host.data.get("plan")
    return plan.name if isinstance(plan, NodePlan) else host.name
