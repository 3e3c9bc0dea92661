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

Changes = dict[str, tuple[str, ...]]
"""What an operation would install or replace -> the lines that show how."""
_found: WeakKeyDictionary[State, dict[tuple[str, str], Changes]] = WeakKeyDictionary()
"""Dry run -> name of the host and hash of the operation -> what it would change."""


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
    if host.state in _found:
        _keep(host, {f"package {name}": () for name in packages})


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
        _keep(host, {one.path: (f"{one.path}: not compared: {error}",) for one in files})
        return
    _keep(host, {file.path: tuple(changes(file, *read[file.path])) for file in files})


def _keep(host: Host, found: Changes) -> None:
    # An operation may decide twice.
    _found[host.state][host.name, str(host.current_op_hash)] = found


def _show(state: State) -> None:
    """Print the operations that would change each node, then the lines of the files."""
    if not state.op_meta:
        return  # the run ended before it was prepared
    logger.info(format_text("--> Dry run: what would change on the nodes", "yellow"))
    hosts = {_name(one): one for one in state.inventory if state.is_host_in_limit(one)}
    failed = [node for node, host in hosts.items() if host in state.failed_hosts]
    of_nodes = {
        node: [*_operations(state, host)] for node, host in hosts.items() if node not in failed
    }
    heads = {
        node: tuple(": ".join(filter(None, (name, ", ".join(found)))) for name, found in operations)
        for node, operations in of_nodes.items()
    }
    for lines, nodes in alike(heads, lambda node: heads[node]).items():
        logger.info(f"    {fold(nodes)}: {count(len(lines), 'operation') if lines else 'nothing'}")
        for line in lines:
            logger.info(f"        {line}")
    if failed:
        logger.info(f"    {fold(failed)}: not known, because of the failure that is named above")
    files = [
        (node, lines)
        for node, operations in of_nodes.items()
        for _, found in operations
        for lines in found.values()
        if lines
    ]
    # A file that many nodes have is shown once.
    for lines, same in alike(files, lambda one: one[1]).items():
        logger.info(f"    {fold(node for node, _ in same)}:")
        for line in lines:
            logger.info(f"        {line}")
    logger.info(
        "    What follows from these changes, such as restarts, is decided when they are made. "
        "No node was changed."
    )


def _operations(state: State, host: Host) -> Iterator[tuple[str, Changes]]:
    """Yield the operations that would change a host, with what they would change."""
    for operation in state.get_op_order():  # type: ignore[no-untyped-call]  # pyinfra's
        data = state.ops[host].get(operation)
        if data is not None and data.operation_meta.will_change:
            name = ", ".join(sorted(state.get_op_meta(operation).names))
            yield name, _found[state].get((host.name, operation), {})


def _name(host: Host) -> str:
    plan = host.data.get("plan")
    return plan.name if isinstance(plan, NodePlan) else host.name
