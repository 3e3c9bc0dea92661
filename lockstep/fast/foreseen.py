"""The facts that a deploy asked for last time: they are what it will ask for this time.

A list says which facts, with which arguments; their commands are made by today's code. So an old
list, or a wrong one, costs readings at most. No list: facts are read as they are asked for.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

from pyinfra.api import FactBase, StringCommand

OTHER_ARGUMENTS = (TypeError, ValueError, LookupError, AttributeError, RecursionError)
"""What comes of a list whose arguments are other ones than today's code takes."""
OURS = "lockstep.facts."
READ_ONLY: tuple[str, ...] = (OURS, "pyinfra.facts.")
"""Modules whose facts change nothing, whatever they are asked."""


def text(command: str | StringCommand) -> str:
    """Return what a shell is given."""
    return command if isinstance(command, str) else command.get_raw_value()


@dataclass(frozen=True)
class Asked:
    """A fact with its arguments, as something that can be kept."""

    module: str
    name: str
    arguments: str
    """JSON: ``[positional, named]``."""

    def kind(self) -> type[FactBase[Any]] | None:
        """Return its class; None when today's code has no such fact."""
        return _kind(self.module, self.name)

    def command(self) -> str | None:
        """Return the command that reads it; None when today's code has no such fact."""
        if self.module.startswith(OURS):
            return _command_of_ours(self)
        return _command(self)

    def named(self, kind: type) -> Arguments:
        """Return the arguments of its class's command by their names; only where there is one."""
        given, named = json.loads(self.arguments)
        return _signature(kind).bind(*given, **named).arguments


@cache
def _kind(module: str, name: str) -> type[FactBase[Any]] | None:
    if not module.startswith(READ_ONLY):
        return None
    try:
        # The first reading is begun before a role is imported.
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return kind if isinstance(kind, type) and _may_be_foreseen(kind) else None


def _command(fact: Asked) -> str | None:
    kind = fact.kind()
    if kind is None:
        return None
    try:
        given, named = json.loads(fact.arguments)
        return text(kind().command(*given, **named))
    except OTHER_ARGUMENTS:
        return None


_command_of_ours = lru_cache(maxsize=1024)(_command)
"""Made once for all hosts, most of which are asked the same: it depends on its arguments alone.

Some of pyinfra's facts ask the host what kind it is before they say their command.
"""


Arguments = dict[str, Any]
"""Of a fact's command, by their names."""


class ForMany(Protocol):
    """A fact that one command reads for many arguments: units, files."""

    def command_for_many(self, every: Sequence[Arguments]) -> str:
        """Return the command."""

    def outputs_for_many(
        self, every: Sequence[Arguments], output: Sequence[str]
    ) -> list[list[str]]:
        """Return of its output what ``command`` would print for each.

        Raises:
            ValueError: the output is not what it should be.
        """


@dataclass(frozen=True)
class ReadCommand:
    """A command of a batch, and the facts' own commands that it answers."""

    command: str
    commands: tuple[str, ...]
    outputs: Callable[[Sequence[str]], list[list[str]]] | None = None
    """Makes theirs of its output; None: it is the one command itself."""


def alone(command: str, only_if: str = "") -> ReadCommand:
    """Return what reads one fact, where a condition of the shell holds."""
    return ReadCommand(f"{only_if} || exit 1\n{command}" if only_if else command, (command,))


def read_commands(facts: Mapping[str, Asked], *, together: bool = True) -> list[ReadCommand]:
    """Return what reads facts ahead.

    A fact whose command starts something that is not there yet (``nvidia-smi`` loads the driver)
    has a condition, ``ahead_only_if``: where it does not hold, the fact waits for its turn.

    Args:
        facts: by their commands.
        together: read those of one kind by one command, where the kind can.
    """
    found: dict[type | str, list[str]] = {}
    for command, fact in facts.items():
        kind = fact.kind()
        many = together and kind is not None and hasattr(kind, "command_for_many")
        found.setdefault(kind if kind and many else command, []).append(command)
    reads: list[ReadCommand] = []
    for of, commands in found.items():
        if len(commands) == 1:
            kind = facts[commands[0]].kind()
            reads.append(alone(commands[0], getattr(kind, "ahead_only_if", "")))
        else:
            reads += _together(of, commands, facts)
    return reads


def _together(kind: Any, commands: list[str], facts: Mapping[str, Asked]) -> list[ReadCommand]:
    fact: ForMany = kind()
    try:
        every = [facts[command].named(kind) for command in commands]
        command = fact.command_for_many(every)
    except OTHER_ARGUMENTS:
        return [*map(alone, commands)]
    return [ReadCommand(command, tuple(commands), partial(fact.outputs_for_many, every))]


def asked(kind: type, given: Sequence[Any], named: dict[str, Any]) -> Asked | None:
    """Return what was asked for, or None where it cannot or must not be kept.

    Arguments for pyinfra itself (``_sudo_password``) are not kept, nor is what JSON has no form
    for, such as pyinfra's hidden values.
    """
    if not _may_be_foreseen(kind) or any(name.startswith("_") for name in named):
        return None
    try:
        return Asked(kind.__module__, kind.__qualname__, json.dumps([list(given), named]))
    except (TypeError, ValueError):
        return None


@cache
def _signature(kind: Any) -> inspect.Signature:
    return inspect.signature(kind().command)


@cache
def _may_be_foreseen(kind: type) -> bool:
    """Say whether a fact may be read before it is asked for: it only reads, and is its command."""
    return (
        issubclass(kind, FactBase)
        and kind.__module__.startswith(READ_ONLY)
        # pyinfra's server.Command is whatever it is given, which may change the node.
        and "command" not in inspect.signature(kind.command).parameters
        # pyinfra wraps the commands of those.
        and kind.requires_command is FactBase.requires_command
        and not kind.shell_executable
    )


def load(file: Path) -> list[Asked]:
    """Return a list; an empty one when there is none, or none that can be read."""
    try:
        return [Asked(*map(str, entry)) for entry in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


def save(file: Path, facts: Sequence[Asked]) -> None:
    """Keep a list for the next run, readable for its owner only: it names what a node has.

    Raises:
        OSError: it cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent)  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as new:
        json.dump([(one.module, one.name, one.arguments) for one in facts], new, indent=0)
    os.replace(temporary, file)
