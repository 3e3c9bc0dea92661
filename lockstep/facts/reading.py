"""Asks questions about a host; one command on the host takes all readings for a question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from paramiko import SSHException
from pyinfra.api import Host, StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.util import CommandOutput

from lockstep import faults
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.ship import (
    ENDS_AFTER_S,
    READS,
    answered,
    asking,
    modules_for,
    reading_program,
)
from lockstep.question import Part, Question, Taken, Unreadable

T = TypeVar("T")
Execute = Callable[..., tuple[bool, CommandOutput]]
"""``run_shell_command`` of a connector."""
FAULTS = (OSError, EOFError, SSHException, PyinfraError, UnicodeError)
"""Exceptions raised if the connection or pyinfra fails, or if the output is not text."""
THE_NODE = "the node"

LIMIT_S = ENDS_AFTER_S
"""Time limit in seconds, longer than ``READER_TIMEOUT_S`` (in node.readers.selected)."""
COMMAND = f"timeout -k 5 {LIMIT_S} {READS}"


class KeepsRecord(Protocol):
    """A connector's record, which keeps the readings of its host for later questions."""

    def ask(self, question: Question[T]) -> T:
        """Answer a question, as the function ``ask`` does."""


def ask(host: Host, question: Question[T]) -> T:
    """Return the answer to a question about a host.

    If the host's connector keeps a record, the answer may come from that record. Otherwise, each
    question runs a command on the host.

    Raises:
        Unreadable: the host did not answer, or could not take the readings.
    """
    keeper: KeepsRecord | None = getattr(host.connector, "record", None)
    if keeper is not None:
        return keeper.ask(question)
    if not host.connected:
        host.connect(reason=f"to read: {question.name}", raise_exceptions=True)
    readings = take(host, host.run_shell_command, question.parts(), connector_arguments(host))
    return question.answer(Taken(readings))


def connector_arguments(host: Host) -> dict[str, Any]:
    """Return the pyinfra arguments (``_sudo``) that facts get in the current operation."""
    # An operation already has them all; collecting them would take most of a question's time.
    usual: Any = host.current_op_global_arguments or pop_global_arguments(host.state, host, {})[0]
    passed = {name: value for name, value in usual.items() if name in CONNECTOR_ARGUMENT_KEYS}
    # The operation's own values are for its commands, not for a program on standard input.
    return {**passed, "_get_pty": False, "_success_exit_codes": [0]}


def take(
    host: Host, execute: Execute, wanted: Collection[Part], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Take readings with one command. Each is a value, or the reason why it could not be read.

    Raises:
        Unreadable: the host did not answer, or a part of its answer is missing.
    """
    if not wanted:
        return {}
    program = reading_program(modules_for(names(wanted)))
    try:
        succeeded, output = execute(
            StringCommand(COMMAND),
            **{**arguments, "_stdin": [program, request(wanted)]},
            print_output=host.state.print_fact_output,
            print_input=host.state.print_fact_input,
        )
    except FAULTS as error:
        raise Unreadable(THE_NODE, faults.of_error(error)) from error
    if not succeeded:
        raise failed(output.stderr_lines or output.stdout_lines)
    try:
        return answered(output.stdout_lines)
    except ProbeFormatError as error:
        raise Unreadable(THE_NODE, str(error)) from error


def names(wanted: Collection[Part]) -> frozenset[str]:
    """Return the names of the readings to which the parts belong."""
    return frozenset(reading for reading, _, _ in wanted)


def request(wanted: Collection[Part], *, waits: bool = False) -> str:
    """Return the request for these parts, as one line; see ``lockstep.probe.ship.asking``."""
    about: dict[str, list[str]] = {}
    for key, one in sorted({(key, one) for _, key, one in wanted if key}):
        about.setdefault(key, []).append(one)
    return asking(names(wanted), about, waits=waits)


def failed(lines: Sequence[str]) -> Unreadable:
    """Return the error for a process that took no readings.

    Args:
        lines: the output of the process; its last line is shown.
    """
    if fault := faults.of_output(lines):
        return Unreadable(THE_NODE, fault)
    said = (lines or [""])[-1].strip()[:200]
    if not said:
        why = f"the reading program failed: no message within {LIMIT_S} s"
        return Unreadable(THE_NODE, f"{why}{faults.NEXT}{faults.HANGS}")
    return Unreadable(
        THE_NODE,
        f"the reading program failed: {said}{faults.NEXT}check that python3 (3.9 or newer) runs on "
        "the node",
    )
