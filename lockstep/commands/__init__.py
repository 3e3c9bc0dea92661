"""The commands of ``lockstep``: each module in this package defines one, as ``COMMAND``.

This module holds the code that they share: arguments, the choice of nodes and rules, output.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lockstep.checks.accepted import AcceptedError
from lockstep.checks.rule import Rule
from lockstep.checks.site import rules_of
from lockstep.fleet.gather import GatherError
from lockstep.forms.colours import coloured
from lockstep.history.store import HistoryError
from lockstep.nearest import did_you_mean
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.reading import RecordsError
from lockstep.report import ExitStatus, fold
from lockstep.secrets import SecretsUnsafe
from lockstep.spec.names import expand
from lockstep.when import moment

NAMED = 9
"""Maximum number of rules listed in one error message."""
RULES = "a rule from the output of lockstep rules"
LEAST = os.terminal_size((80, 24))
"""Columns and lines that a report has even on a smaller terminal."""
PUBLIC = 0o644
"""Mode of metrics files, which node_exporter reads as another user."""


class WrongUse(Exception):
    """Raised for a usage error; the message says what is expected or what to do next."""


class NotRead(Exception):
    """Raised when a node that the command needs could not be read; the message names the node."""


class Argument:
    """One argument of a command."""

    def __init__(self, *names: str, **settings: Any) -> None:
        """Take the parameters of ``ArgumentParser.add_argument``."""
        self.names, self.settings = names, settings


@dataclass(frozen=True)
class Command:
    """One command, defined as data and named after its module."""

    run: Callable[[argparse.Namespace], int]
    """Takes the parsed arguments and returns the exit status."""
    help: str
    arguments: tuple[Argument, ...]
    description: str | None = None
    program: Callable[[Sequence[str]], int] | None = None
    """Takes the words after the command, if it parses them itself, and returns the exit status."""
    usage: str | None = None
    """If None, argparse generates the usage from the arguments."""
    interrupted: str = "no node was changed"
    """What Ctrl-C leaves behind."""

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments to a parser."""
        for argument in self.arguments:
            parser.add_argument(*argument.names, **argument.settings)

    def parsed(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the arguments in the words after the command."""
        parser = argparse.ArgumentParser()
        self.add_to(parser)
        return parser.parse_args(words)

    def __call__(self, arguments: argparse.Namespace) -> int:
        """Run the command and return its exit status; print an expected error as one message."""
        try:
            return self.run(arguments)
        except (WrongUse, RecordsError, SecretsUnsafe, HistoryError, AcceptedError) as error:
            print(f"ERROR {error}", file=sys.stderr)
            return ExitStatus.WRONG_USE
        except NotRead as error:
            print(f"ERROR {error}", file=sys.stderr)
        except GatherError as error:
            print(f"ERROR no node was read: {error}", file=sys.stderr)
        return ExitStatus.UNREAD


INVENTORY = Argument("inventory", metavar="INVENTORY", help="inventory file")
RULE = Argument(
    "--rule",
    metavar="ID",
    action="append",
    help="check only this rule, or the rules that match a pattern such as 'gpu.*'; repeatable",
)
JSON = Argument("--json", metavar="FILE", help="write the result as JSON; - for stdout")


def limit(what: str, *, peers: bool = False) -> Argument:
    """Return the ``--limit`` option; its help text begins with ``what``, a verb such as "check"."""
    still_read = "their peers are still read; " if peers else ""
    text = f"{what} these nodes only: names, worker[01-04], or a role; {still_read}repeatable"
    return Argument("--limit", metavar="NODES", action="append", help=text)


def limited(plan: ClusterPlan, limits: Sequence[str] | None) -> frozenset[str] | None:
    """Return the nodes that the ``--limit`` options select; None if there is no such option.

    Raises:
        WrongUse: a name is malformed or not in the inventory.
    """
    if limits is None:
        return None
    chosen: set[str] = set()
    for text in limits:
        of_role = [name for name, node in plan.nodes.items() if node.role.value == text]
        try:
            names = of_role or expand(text) or [text]
        except ValueError as error:
            raise WrongUse(f"--limit {text!r}: {error}") from error
        chosen.update(node_named(plan, name).name for name in names)
    return frozenset(chosen)


def chosen_rules(plan: ClusterPlan, ids: Sequence[str] | None) -> tuple[Rule, ...]:
    """Return the rules that match these ids or patterns, or all rules if ``ids`` is empty.

    Raises:
        WrongUse: an id or pattern matches no rule.
    """
    known = {rule.id: rule for rule in rules_of(plan.spec)}
    chosen: dict[str, Rule] = {}
    for name in ids or ("*",):
        found = {rule: known[rule] for rule in known if fnmatchcase(rule, name)}
        if not found:
            raise no_rule(name, known)
        chosen |= found
    return tuple(chosen.values())


def node_named(plan: ClusterPlan, name: str) -> NodePlan:
    """Return the plan of a node.

    Raises:
        WrongUse: the node is not in the inventory; the message suggests similar names.
    """
    if name not in plan.nodes:
        expected = did_you_mean(name, plan.nodes, fold(plan.nodes))
        raise WrongUse(f"{plan.inventory}: unknown node {name!r}\n  expected  {expected}")
    return plan.nodes[name]


def no_rule(name: str, known: Mapping[str, Rule]) -> WrongUse:
    """Return the error for an unknown rule; it suggests related or similar rules."""
    found = [rule for rule in known if rule.startswith(name)] or [
        rule.id for rule in known.values() if f"{name}.".startswith(f"{rule.reading}.")
    ]
    named = [*found[:NAMED], *([f"and {len(found) - NAMED} more"] if len(found) > NAMED else [])]
    expected = ", ".join(named) or did_you_mean(name, known, RULES)
    return WrongUse(f"unknown rule {name!r}\n  expected  {expected}")


def moment_of(option: str, text: str) -> float:
    """Return the Unix time that an option names.

    Raises:
        WrongUse: it is not a time.
    """
    try:
        return moment(text, time.time())
    except ValueError as error:
        raise WrongUse(f"{option} {text!r}: not a time\n  expected  {error}") from error


def require_writable(arguments: argparse.Namespace, *names: str) -> None:
    """Check, before any node is read, that the output files of these options can be written.

    Raises:
        WrongUse: a file cannot be written.
    """
    for name in names:
        path = getattr(arguments, name)
        if path in (None, "-"):
            continue
        option, folder = f"--{name.replace('_', '-')} {path}", Path(path).parent
        writable = os.access(path if Path(path).exists() else folder, os.W_OK)
        for wrong, problem in (
            (Path(path).is_dir(), "this is a folder\n  expected  a file"),
            (not folder.is_dir(), f"the folder does not exist\n  next      mkdir -p {folder}"),
            (not writable, "permission denied\n  expected  a writable file"),
        ):
            if wrong:
                raise WrongUse(f"{option}: {problem}")


def copy_folder(source: Path, folder: Path, *ignored: str) -> None:
    """Copy a folder of Lockstep's to a place of the user's.

    Args:
        source: what is copied.
        folder: where to.
        ignored: patterns of names that are left out.

    Raises:
        WrongUse: the target has files or is a file, or it cannot be written.
    """
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", *ignored)
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if there or (folder.exists() and not folder.is_dir()):
        problem = f"the folder has files: {', '.join(there[:5])}" if there else "this is a file"
        raise WrongUse(f"{folder}: {problem}\n  expected  a folder that is empty or does not exist")
    try:
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=ignore)
    except shutil.Error as error:  # one entry for each file: source, target, reason
        _, target, reason = error.args[0][0]
        raise WrongUse(f"{target}: {reason}") from error
    except OSError as error:
        raise WrongUse(f"{error.filename or folder}: {error.strerror}") from error


def write(path: str, content: str, mode: int | None = None) -> None:
    """Write a file, atomically if a mode is given; ``-`` means standard output."""
    named = Path(path)
    try:
        if path == "-":
            sys.stdout.write(content)
        elif mode is None or (named.exists() and not named.is_file()):  # for example /dev/stdout
            named.write_text(content, encoding="utf-8")
        else:
            replace_file(path, content, mode)
    except BrokenPipeError:
        raise  # the reader closed the pipe; main() handles it
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from error


def show(
    json_file: str | None,
    document: Callable[[], Mapping[str, object]],
    text: Callable[[], str] = str,
) -> None:
    """Write the document to the ``--json`` file; print the text unless that file is stdout."""
    if json_file:
        write(json_file, json.dumps(document(), indent=2) + "\n")
    if json_file != "-":
        sys.stdout.write(coloured(text()) if _has_colours() else text())


def screen() -> dict[str, int]:
    """Return the lines and columns of the terminal; {} if the output goes elsewhere."""
    if not sys.stdout.isatty():
        return {}
    size = shutil.get_terminal_size()
    # Below, there would be no room for a node or a repair.
    return {"lines": max(size.lines, LEAST.lines), "columns": max(size.columns, LEAST.columns)}


def _has_colours() -> bool:
    """Whether standard output is a terminal that is to have colours (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def replace_file(path: str, text: str, mode: int) -> None:
    """Replace a file atomically and set its mode: readers see either the old or the new file.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(path).resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, mode)
            file.write(text)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
