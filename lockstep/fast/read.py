"""Reads facts for operations, and raises ``Unreadable`` if a fact cannot be read.

pyinfra returns a fact's default if the fact could not be read. An operation would then
mistake an unreadable node for an empty one, or end the run on all hosts with an error.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pyinfra.api import FactBase, ShortFactBase, StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.api.exceptions import PyinfraError
from pyinfra.context import ctx_host

from lockstep import faults
from lockstep.facts.reading import FAULTS as FAULTS
from lockstep.fast import ssh
from lockstep.question import Unreadable

if TYPE_CHECKING:
    from pyinfra.api.host import Host

GARBAGE = (PyinfraError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors from parsing output that does not have the expected format."""
SHOWN = 200
"""Maximum number of characters that an error quotes from a node's output."""


def strictly() -> AbstractContextManager[None]:
    """Make ``host.get_fact`` in this greenlet raise ``Unreadable`` if it fails or is too slow."""
    host = ctx_host.get()  # type: ignore[no-untyped-call]  # pyinfra's
    if "get_fact" not in vars(host):  # else the host's record has already replaced it
        host.get_fact = strict_where_asked(host, host.get_fact)
    return ssh.reading()


def strict_where_asked(host: Host, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return pyinfra's ``get_fact``, changed to raise ``Unreadable`` where ``strictly`` applies.

    Args:
        host: the host to read.
        plain: pyinfra's own ``get_fact``.
    """

    def get_fact(kind: type[FactBase[Any]], *given: Any, **named: Any) -> Any:
        if ssh.limit.within_s is None:
            return plain(kind, *given, **named)
        more_than_a_command = (
            issubclass(kind, ShortFactBase)
            or kind.requires_command is not FactBase.requires_command
            or kind.check_preconditions is not FactBase.check_preconditions
            or kind.shell_executable
        )
        if not more_than_a_command:
            return fact(host, kind, *given, **named)
        # Some of pyinfra's own facts; for these the default may be a valid value.
        try:
            value = plain(kind, *given, **named)
        except (*FAULTS, *GARBAGE) as error:
            raise Unreadable(kind.__name__, str(error) or type(error).__name__) from error
        if host in host.state.failed_hosts:  # pyinfra has printed the reason
            raise Unreadable(kind.__name__, "see pyinfra's error above")
        return value

    return get_fact


def fact(host: Host, kind: type[FactBase[Any]], *given: Any, **named: Any) -> Any:
    """Read a fact of a host.

    Args:
        host: the host to read.
        kind: the class of the fact.
        given: arguments of its command.
        named: arguments of its command, and pyinfra's own (``_sudo``).

    Raises:
        Unreadable: the command failed, or its output cannot be parsed.
    """
    one = kind()
    of_command = {name: value for name, value in named.items() if not name.startswith("_")}
    try:
        command = one.command(*given, **of_command)
        found = one.process(_answer(host, command, kind.__name__, named))
    except GARBAGE as error:
        said = f"{type(error).__name__}: {error}"
        raise Unreadable(kind.__name__, f"unexpected output: {said[:SHOWN]}") from error
    if found is None:
        raise Unreadable(kind.__name__, "the output contains no value")
    return found


def _answer(
    host: Host, command: str | StringCommand, what: str, named: dict[str, Any]
) -> list[str]:
    """Run the command of a fact, and return the lines that it printed.

    Raises:
        Unreadable: the command failed or printed nothing, or its output is not text.
    """
    state = host.state
    usual, _ = pop_global_arguments(
        state, host, {**dict(host.current_op_global_arguments or {}), **named}
    )
    passed = {name: value for name, value in usual.items() if name in CONNECTOR_ARGUMENT_KEYS}
    try:
        if not host.connected:
            host.connect(reason=f"to read {what}", raise_exceptions=True)
        ok, output = host.run_shell_command(
            command,
            print_output=state.print_fact_output,
            print_input=state.print_fact_input,
            **passed,
        )
    except FAULTS as error:
        raise Unreadable(what, str(error) or type(error).__name__) from error
    if isinstance(output, ssh.Output) and not output.is_text:
        raise Unreadable(what, "the output is not UTF-8 text")
    if not ok and (fault := faults.of_output(output.output_lines)):
        raise Unreadable(what, fault)
    if not ok:
        said = next((line for line in reversed(output.stderr_lines) if line.strip()), "")
        raise Unreadable(what, f"the command failed: {said.strip()[:SHOWN] or 'no message'}")
    if not output.stdout_lines:
        raise Unreadable(what, "the command printed nothing")
    return output.stdout_lines
