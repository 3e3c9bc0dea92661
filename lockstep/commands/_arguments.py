"""Resolves nodes and rules named on the command line; reports errors and exit statuses."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from lockstep.checks.rule import Rule
from lockstep.checks.site import rules_of
from lockstep.fleet.gather import GatherError
from lockstep.forms.write import replace_file
from lockstep.history.store import HistoryError
from lockstep.plan import ClusterPlan
from lockstep.reading import RecordsError
from lockstep.report import ExitStatus, fold
from lockstep.secrets import SecretsUnsafe
from lockstep.spec import Role
from lockstep.spec.names import expand

NAMED = 9
"""Maximum number of rules in one error message."""
LISTED = "a rule from the output of lockstep rules"


class WrongUse(Exception):
    """Wrong use of a command; the text names the expected input."""


class NotRead(Exception):
    """The command needs the record of a node that could not be read; the text names the node."""


def reports_errors(
    run: Callable[[argparse.Namespace], int],
) -> Callable[[argparse.Namespace], int]:
    """Decorate a command: print its errors in one message and return the exit status."""

    @functools.wraps(run)
    def status(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except (WrongUse, RecordsError, SecretsUnsafe, HistoryError) as error:
            print(f"ERROR {error}", file=sys.stderr)
            return ExitStatus.WRONG_USE
        except NotRead as error:
            print(f"ERROR {error}", file=sys.stderr)
            return ExitStatus.UNREAD
        except GatherError as error:
            print(f"ERROR no node was read: {error}", file=sys.stderr)
            return ExitStatus.UNREAD

    return status


def limited(plan: ClusterPlan, limits: Sequence[str] | None) -> frozenset[str] | None:
    """Return the nodes of all ``--limit`` options; None without the option.

    Raises:
        WrongUse: a node is not in the inventory.
    """
    if limits is None:
        return None
    return frozenset[str]().union(*(chosen_nodes(plan, text) for text in limits))


def chosen_nodes(plan: ClusterPlan, text: str) -> frozenset[str]:
    """Return the nodes that a range of names or a role selects.

    Raises:
        WrongUse: a node is not in the inventory.
    """
    if text in {role.value for role in Role}:
        chosen = [name for name, node in plan.nodes.items() if node.role.value == text]
        if chosen:
            return frozenset(chosen)
    try:
        names = expand(text)
    except ValueError as error:
        raise WrongUse(f"--limit {text!r}: {error}") from error
    missing = [name for name in names if name not in plan.nodes]
    if missing or not names:
        raise no_node(missing[0] if missing else text, plan.nodes)
    return frozenset(names)


def chosen_rules(plan: ClusterPlan, ids: Sequence[str] | None) -> tuple[Rule, ...]:
    """Return the rules that match these ids, which may contain ``*``; all rules without ids.

    Raises:
        WrongUse: no rule matches an id.
    """
    known = {rule.id: rule for rule in rules_of(plan.spec)}
    chosen: dict[str, Rule] = {}
    for name in ids or ("*",):
        found = {rule: known[rule] for rule in known if fnmatchcase(rule, name)}
        if not found:
            raise no_rule(name, known)
        chosen |= found
    return tuple(chosen.values())


def no_node(name: str, known: Iterable[str]) -> WrongUse:
    """Return the error for an unknown node, with similar names."""
    close = get_close_matches(name, list(known), n=3) or [fold(known)]
    return WrongUse(f"unknown node {name!r}\n  expected  {', '.join(close)}")


def no_rule(name: str, known: Mapping[str, Rule]) -> WrongUse:
    """Return the error for an unknown rule, with related or similar rules."""
    found = (
        [rule for rule in known if rule.startswith(name)]
        or [rule.id for rule in known.values() if f"{name}.".startswith(f"{rule.reading}.")]
        or get_close_matches(name, list(known), n=3)
    )
    named = found[:NAMED] + ([f"and {len(found) - NAMED} more"] if len(found) > NAMED else [])
    return WrongUse(f"unknown rule {name!r}\n  expected  {', '.join(named) or LISTED}")


def require_writable(arguments: argparse.Namespace, *names: str) -> None:
    """Check the output files of these options; call it before nodes are read.

    Raises:
        WrongUse: a file cannot be written there.
    """
    for name in names:
        path = getattr(arguments, name)
        if path is None or path == "-":
            continue
        option, folder = f"--{name.replace('_', '-')} {path}", Path(path).parent
        if Path(path).is_dir():
            raise WrongUse(f"{option}: this is a folder\n  expected  a file")
        if not folder.is_dir():
            raise WrongUse(f"{option}: the folder does not exist\n  next      mkdir -p {folder}")
        if not os.access(path if Path(path).exists() else folder, os.W_OK):
            raise WrongUse(f"{option}: permission denied\n  expected  a file that you can write")


def write(path: str, content: str, mode: int | None = None) -> None:
    """Write a file, atomically when a mode is given; ``-`` is standard output."""
    try:
        if path == "-":
            sys.stdout.write(content)
        elif mode is None:
            Path(path).write_text(content, encoding="utf-8")
        else:
            replace_file(path, content, mode)
    except BrokenPipeError:
        raise  # the reader closed the pipe; main() handles it
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from error
