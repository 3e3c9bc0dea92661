"""The door through which an operation learns about its node: an answer, or ``Unreadable``.

pyinfra hands out a fact's default where the fact could not be read, and an operation then takes an
unread node for an empty one, or ends the run of all hosts with an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gevent.local import local
from paramiko import SSHException
from pyinfra.api import FactBase, ShortFactBase, StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.api.exceptions import PyinfraError
from pyinfra.context import ctx_host

from lockstep.fast import ssh
from lockstep.unreadable import Unreadable

if TYPE_CHECKING:
    from pyinfra.api.host import Host

FAULTS = (OSError, EOFError, SSHException, PyinfraError, UnicodeError)
"""What a connection, pyinfra and a fact raise where a node gives no answer, or a wrong one."""
GARBAGE = (PyinfraError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What making sense of an answer raises where it is another one than the reading expects."""
SHOWN = 200
"""Characters of a node's own words in a reason."""

GetFact = Callable[..., Any]


class _Mode(local):  # type: ignore[misc]  # gevent's has no types
    strict = False


_mode = _Mode()


@contextmanager
def strictly() -> Iterator[None]:
    """Have ``host.get_fact`` raise ``Unreadable`` in this greenlet, for its host."""
    host = ctx_host.get()  # type: ignore[no-untyped-call]  # pyinfra's
    if "get_fact" not in vars(host):  # else it is the one of this host's memory
        host.get_fact = strict_where_asked(host, host.get_fact)
    before, _mode.strict = _mode.strict, True
    try:
        yield
    finally:
        _mode.strict = before


def strict_where_asked(host: Host, plain: GetFact) -> GetFact:
    """Return a host's ``get_fact`` that reads strictly where it is asked to, else as pyinfra does.

    Args:
        host: of the facts.
        plain: pyinfra's own.
    """

    def get_fact(kind: type[FactBase[Any]], *given: Any, **named: Any) -> Any:
        if not _mode.strict:
            return plain(kind, *given, **named)
        if _has_conditions(kind):
            return _as_pyinfra(host, plain, kind, given, named)
        return fact(host, kind, *given, **named)

    return get_fact


def fact(host: Host, kind: type[FactBase[Any]], *given: Any, **named: Any) -> Any:
    """Read a fact of a host.

    Args:
        host: to read.
        kind: of the fact.
        given: for its command.
        named: for its command, and pyinfra's own (``_sudo``).

    Raises:
        Unreadable: there is no answer, or it makes no sense.
    """
    one = kind()
    arguments = {name: value for name, value in named.items() if not name.startswith("_")}
    theirs = {name: value for name, value in named.items() if name.startswith("_")}
    try:
        lines = answer(host, one.command(*given, **arguments), kind.__name__, **theirs)
        found = one.process(lines)
    except GARBAGE as error:
        said = f"{type(error).__name__}: {error}"
        raise Unreadable(kind.__name__, f"unexpected answer: {said[:SHOWN]}") from error
    if found is None:
        raise Unreadable(kind.__name__, "the answer says nothing")
    return found


def answer(
    host: Host,
    command: str | StringCommand,
    what: str,
    within_s: float | None = None,
    **arguments: Any,
) -> list[str]:
    """Run a command that only reads, and return the lines that it printed.

    Args:
        host: to read.
        command: of the reading; it ends with 0 and prints something.
        what: the name of the reading.
        within_s: limit, on the node and here; None: the usual one.
        arguments: pyinfra's own (``_stdin``), beside those of the operation that runs.

    Raises:
        Unreadable: it does not, or it is not text.
    """
    state = host.state
    of_operation: Mapping[str, Any] = host.current_op_global_arguments or {}
    usual, _ = pop_global_arguments(state, host, {**of_operation, **arguments})
    passed = {name: value for name, value in usual.items() if name in CONNECTOR_ARGUMENT_KEYS}
    try:
        if not host.connected:
            host.connect(reason=f"to read {what}", raise_exceptions=True)
        with ssh.reading(within_s):
            ok, output = host.run_shell_command(
                command,
                print_output=state.print_fact_output,
                print_input=state.print_fact_input,
                **passed,
            )
    except FAULTS as error:
        raise Unreadable(what, str(error) or type(error).__name__) from error
    if isinstance(output, ssh.Output) and not output.is_text:
        raise Unreadable(what, "the answer is not text (UTF-8)")
    if not ok:
        said = next((line for line in reversed(output.stderr_lines) if line.strip()), "")
        raise Unreadable(what, f"the command failed: {said.strip()[:SHOWN] or 'no message'}")
    if not output.stdout_lines:
        raise Unreadable(what, "the answer is empty")
    return output.stdout_lines


def _has_conditions(kind: type[FactBase[Any]]) -> bool:
    """Say whether pyinfra itself does more for a fact than to run its command: some of its own."""
    return (
        issubclass(kind, ShortFactBase)
        or kind.requires_command is not FactBase.requires_command
        or kind.check_preconditions is not FactBase.check_preconditions
        or bool(kind.shell_executable)
    )


def _as_pyinfra(
    host: Host, plain: GetFact, kind: type[FactBase[Any]], given: Any, named: Any
) -> Any:
    """Read a fact as pyinfra does; there the default may be an answer.

    Raises:
        Unreadable: pyinfra failed the host, and has shown why.
    """
    try:
        with ssh.reading():
            value = plain(kind, *given, **named)
    except (*FAULTS, *GARBAGE) as error:
        raise Unreadable(kind.__name__, str(error) or type(error).__name__) from error
    if host in host.state.failed_hosts:
        raise Unreadable(kind.__name__, "see above")
    return value
