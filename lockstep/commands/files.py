"""``lockstep files INVENTORY NODE [PATH]``: shows the files that Lockstep writes on a node."""

from __future__ import annotations

import argparse
import sys

from lockstep import secrets
from lockstep.commands import INVENTORY, Argument, Command, NotRead, WrongUse, node_named
from lockstep.files import ManagedFile, managed
from lockstep.fleet.gather import gather
from lockstep.forms import table
from lockstep.inventory import load
from lockstep.nearest import did_you_mean
from lockstep.plan import NodePlan
from lockstep.plan.declaration import File
from lockstep.preview import changes
from lockstep.probe.record import Record, Unreachable, Unread
from lockstep.report import ExitStatus, count


def _run(arguments: argparse.Namespace) -> int:
    plan = load(arguments.inventory)
    node = node_named(plan, arguments.node)
    declared = {file.path: (role, file) for role, file in node.system.files}
    if arguments.path is not None and arguments.path not in declared:
        raise _no_file(node, arguments.path, declared)
    chosen = {path: one for path, one in declared.items() if arguments.path in (None, path)}
    spec = plan.spec
    held = secrets.existing(spec.name, spec.secrets_dir, spec.software.module_key)
    files = {file.path: file for file in managed(node, held) if file.path in chosen}
    if arguments.diff:
        return _difference(node, chosen, files)
    if arguments.path is None:
        rows = [_row(node, role, one, files.get(path)) for path, (role, one) in chosen.items()]
        print("\n".join(table([("PATH", "MODE", "OWNER", "BYTES", "ROLE"), *sorted(rows)])))
    elif chosen[arguments.path][1].secret:
        raise WrongUse(
            f"{arguments.path}: the file holds a secret, which is never shown\n"
            f"  next      lockstep files {plan.inventory} {node.name} {arguments.path} --diff"
        )
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(files[arguments.path].content)
    return ExitStatus.CONSISTENT


def _row(
    node: NodePlan, role: str, file: File, made: ManagedFile | None
) -> tuple[str, str, str, str, str]:
    size = "secret" if file.secret or made is None else str(len(made.content))
    site = node.site_files.get(file.path)
    if site is not None:
        of_site = count(len(site.lines), "line") if site.lines else "the content"
        role = f"{role}, {of_site} by the site"
    return file.path, file.mode, file.owner, size, role


def _no_file(node: NodePlan, path: str, declared: dict[str, tuple[str, File]]) -> WrongUse:
    every = f"a path that lockstep files {node.cluster.inventory} {node.name} lists"
    expected = did_you_mean(path, declared, every)
    return WrongUse(f"Lockstep writes no file {path} on {node.name}\n  expected  {expected}")


def _difference(
    node: NodePlan, chosen: dict[str, tuple[str, File]], files: dict[str, ManagedFile]
) -> int:
    """Print what a deploy would change in the files of a node; return the exit status."""
    got = gather(node.cluster, [node.name], texts=True)[node.name]
    if isinstance(got, Unreachable):
        raise NotRead(f"{node.name}: {got.reason}")
    results = []
    for path, (_, file) in chosen.items():
        result, lines = _compared(got, path, file, files.get(path))
        results.append(result)
        for line in lines:
            print(line)
    status = max(results, key=lambda one: (one is ExitStatus.DIFFERS, one))
    differing, unread = results.count(ExitStatus.DIFFERS), results.count(ExitStatus.UNREAD)
    print(
        f"{node.name}: {count(len(chosen), 'file')}, {differing} "
        f"{'differs' if differing == 1 else 'differ'}"
        f"{f', {unread} not compared' if unread else ''}. Exit {int(status)}."
    )
    return status


def _compared(
    got: Record, path: str, file: File, made: ManagedFile | None
) -> tuple[ExitStatus, list[str]]:
    """Return the result for one file, and the lines that show it."""
    state = got.entry("files", path)
    if made is None:
        why = "secret, not compared: this machine does not have it"
        return ExitStatus.UNREAD, [f"{path}: {why}"]
    if not isinstance(state, dict):
        why = state.unread if isinstance(state, Unread) else "not in the node's answer"
        return ExitStatus.UNREAD, [f"{path}: not read: {why}"]
    text = None if file.secret else got.entry("files.texts", path)
    shown = {"unread": text.unread} if isinstance(text, Unread) else text
    lines = [*changes(made, state, shown if isinstance(shown, dict) else None)]
    if lines:
        return ExitStatus.DIFFERS, lines
    return ExitStatus.CONSISTENT, [f"{path}: secret, equal"] if file.secret else []


COMMAND = Command(
    run=_run,
    help="show the files that Lockstep writes on a node, or how the node differs from them",
    description="Without --diff, no node is contacted. Exit status with --diff: 0 the node has all "
    "files as planned, 1 some differ, 2 the node could not be read, 3 usage error.",
    arguments=(
        INVENTORY,
        Argument("node", metavar="NODE", help="name of a node"),
        Argument("path", metavar="PATH", nargs="?", help="show the content of this file"),
        Argument(
            "--diff",
            action="store_true",
            help="read the node, and show what a deploy would change in its files",
        ),
    ),
)
