"""What a role asks of a host: readings, parts of the record, taken by the check's own readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from paramiko import SSHException
from pyinfra.api import Host, StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.util import CommandOutput

from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.ship import answered, asking
from lockstep.unreadable import Unreadable as Unreadable

T = TypeVar("T")
Execute = Callable[..., tuple[bool, CommandOutput]]
"""``run_shell_command`` of a connector."""
Part = tuple[str, str, str]
"""A reading, and what it is about: a key of the request and one name of it, "" for neither."""

ABOUT = {
    "files": "files",
    "files.changed": "changed",
    "os.groups": "groups",
    "units": "units",
    "units.started": "units",
    "sysctl.running": "sysctls",
    "kernel.files": "kernel_files",
}
"""Reading -> the key of the request that says what it is about; others are about the node."""

THE_NODE = "the node"

LIMIT_S = 60
"""Longer than any reader may take: two of its commands, one after the other."""
COMMAND = f"timeout -k 5 {LIMIT_S} python3 -"


class Taken:
    """Readings as they were taken of a host."""

    def __init__(self, readings: Mapping[str, Any]) -> None:
        """Take them as the program on the node prints them."""
        self._readings = readings

    def __getitem__(self, name: str) -> Any:
        """Return a reading.

        Raises:
            Unreadable: it was not taken.
        """
        why = self.unread(name)
        if why is not None:
            raise Unreadable(name, why)
        return self._readings[name]["value"]

    def item(self, name: str, key: str) -> Any:
        """Return one item of a reading that is a map.

        Raises:
            Unreadable: the reading or the item was not taken.
        """
        entry = self[name].get(key, {"unread": "not in the answer"})
        if isinstance(entry, dict) and entry.keys() == {"unread"}:
            raise Unreadable(f"{name}: {key}", str(entry["unread"]))
        return entry

    def unread(self, name: str) -> str | None:
        """Return why a reading was not taken; None: it was."""
        reading = self._readings.get(name, {"unread": "not in the answer"})
        return None if "value" in reading else str(reading.get("unread"))


@dataclass(frozen=True)
class Question(Generic[T]):
    """What somebody wants to know of a host."""

    name: str
    """For messages: ``packages``."""
    readings: tuple[str, ...]
    answer: Callable[[Taken], T]
    """Makes the answer of the readings; raises ``Unreadable`` where it cannot."""
    about: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of the request and their names, for those of its readings that are about them."""

    def parts(self) -> frozenset[Part]:
        """Return what has to be read for it."""
        return parts(self.readings, self.about)


def parts(readings: Iterable[str], about: Mapping[str, Iterable[str]]) -> frozenset[Part]:
    """Return readings, each with all that it is about."""
    found = set()
    for reading in readings:
        key = ABOUT.get(reading, "")
        found |= {(reading, key, one) for one in (about.get(key, ()) if key else ("",))}
    return frozenset(found)


class KeepsRecord(Protocol):
    """Keeps what was read of a host, for the next question."""

    def ask(self, question: Question[T]) -> T:
        """Do as ``ask``."""


def ask(host: Host, question: Question[T]) -> T:
    """Return the answer of a host.

    Where its connector keeps a record, that is asked first; else each question is an execution.

    Raises:
        Unreadable: the host did not answer, or could not read what it was asked.
    """
    keeper: KeepsRecord | None = getattr(host.connector, "memory", None)
    if keeper is not None:
        return keeper.ask(question)
    if not host.connected:
        host.connect(reason=f"to read: {question.name}", raise_exceptions=True)
    readings = take(host, host.run_shell_command, question.parts(), connector_arguments(host))
    return question.answer(Taken(readings))


def connector_arguments(host: Host) -> dict[str, Any]:
    """Return pyinfra's arguments (``_sudo``) for what is executed now, as its facts have them."""
    given = dict(host.current_op_global_arguments or {})
    usual, _ = pop_global_arguments(host.state, host, given)
    return {name: value for name, value in usual.items() if name in CONNECTOR_ARGUMENT_KEYS}


def take(
    host: Host, execute: Execute, wanted: Iterable[Part], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Take readings in one execution; each is in the answer, with its value or why it has none.

    Raises:
        Unreadable: there is no answer, or not all of it.
    """
    parts = frozenset(wanted)
    return taken(host, execute, program(parts), arguments) if parts else {}


def program(wanted: Iterable[Part]) -> str:
    """Return the program that takes readings, for the standard input of ``COMMAND``."""
    about: dict[str, list[str]] = {}
    names = set()
    for reading, key, one in sorted(wanted):
        names.add(reading)
        if key and one not in about.setdefault(key, []):
            about[key].append(one)
    return asking(frozenset(names), about)


def taken(host: Host, execute: Execute, text: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a program that takes readings.

    Raises:
        Unreadable: there is no answer, or not all of it.
    """
    try:
        succeeded, output = execute(
            StringCommand(COMMAND),
            **{**arguments, "_stdin": text},
            print_output=host.state.print_fact_output,
            print_input=host.state.print_fact_input,
        )
    except (OSError, EOFError, SSHException, PyinfraError, UnicodeError) as error:
        raise Unreadable(THE_NODE, f"{type(error).__name__}: {error}") from error
    if not succeeded:
        said = (output.stderr_lines or output.stdout_lines or [""])[-1].strip()[:200]
        raise Unreadable(
            THE_NODE,
            f"the program that reads it failed: {said or f'no message within {LIMIT_S} s'}. "
            "Next: see that python3 (3.9 or newer) runs there",
        )
    try:
        return answered(output.stdout_lines)
    except ProbeFormatError as error:
        raise Unreadable(THE_NODE, str(error)) from error
