"""Decorator for operations: like pyinfra's, but if a node does not answer, only that node fails."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, TypeVar

from gevent import GreenletExit
from pyinfra import host
from pyinfra.api import FunctionCommand, Host, StringCommand
from pyinfra.api import operation as pyinfra_operation
from pyinfra.api.arguments_typed import PyinfraOperation
from pyinfra.context import ctx_host
from typing_extensions import ParamSpec

from lockstep.facts import reading
from lockstep.fast import limits
from lockstep.fast.failures import failures_of
from lockstep.fast.read import FAULTS, strictly
from lockstep.question import Question, Unreadable

P = ParamSpec("P")
T = TypeVar("T")
Command = str | StringCommand | FunctionCommand
Commands = Generator[Command, None, None]
CommandsOrReason = Generator[Command, None, str]
"""A generator of commands; if it yields none, it returns the reason."""


def operation(
    right: str = "", limit_s: float = limits.SHORT_S
) -> Callable[[Callable[P, Generator[Any, None, str | None]]], PyinfraOperation[P]]:
    """Turn a generator into an operation that fails only its own host if a value is unreadable.

    In the operation, ``host.get_fact`` raises ``Unreadable`` where pyinfra would return the fact's
    default.

    Args:
        right: the text that ``pyinfra -v`` shows if the operation yields no command. An operation
            with several such texts returns one of them instead.
        limit_s: seconds that its commands may take together; then the node fails, and the command
            is ended there. The commands of a function have an hour each.
    """

    def decorate(function: Callable[P, Generator[Any, None, str | None]]) -> PyinfraOperation[P]:
        @wraps(function)
        def alone(*args: P.args, **kwargs: P.kwargs) -> Generator[Any, None, None]:
            commands = function(*args, **kwargs)
            allowed = None
            try:
                while True:
                    try:
                        with strictly():
                            command = next(commands)
                    except StopIteration as end:
                        why = end.value or right
                        if why and allowed is None:
                            host.noop(why)
                        return
                    except Unreadable as unreadable:
                        yield _fail(str(unreadable))
                        return
                    except FAULTS as error:
                        yield _fail(f"{function.__name__}: {error or type(error).__name__}")
                        return
                    allowed = allowed or limits.Allowed(limit_s * limits.SCALE)
                    # A function may wait for hours, such as for the jobs of a node to end.
                    of_all = None if isinstance(command, FunctionCommand) else allowed
                    with limits.allowing(of_all):
                        yield command
            finally:
                commands.close()

        return pyinfra_operation()(alone)

    return decorate


def ask(question: Question[T]) -> T:
    """Ask the host on which the operation is running, and return its answer.

    Raises:
        Unreadable: see ``lockstep.facts.reading.ask``.
    """
    return reading.ask(host, question)


def refusal(why: str) -> FunctionCommand:
    """Return a command that fails only its own host: an exception would end the whole run."""
    return FunctionCommand(lambda state, host: fail(host, why), (), {})


def fail(host: Host, why: str) -> bool:
    """Show why a host fails, also at the end of the run; return False, as a failed command does."""
    failures_of(host.state).note(host, why)
    host.log_styled(why, fg="red", bold=True)
    return False


def _fail(why: str) -> FunctionCommand:
    """Return a command that fails its host; if execution has not started, fail the host at once."""
    failing: Host = ctx_host.get()  # type: ignore[no-untyped-call]  # pyinfra's
    state = failing.state
    then = "" if "Next: " in why else f". Next: repair {failing.name}, then run this again"
    command = refusal(f"{failing.name} failed: {why}{then}")
    if not state.is_executing:
        command.execute(state, failing, {})
        # Not State.fail_hosts: without -y it asks whether to go on, once for each of these hosts.
        state.failed_hosts.add(failing)
        state.active_hosts.discard(failing)
        raise GreenletExit
    return command
