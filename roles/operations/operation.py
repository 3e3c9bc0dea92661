"""pyinfra's decorator for operations, for nodes that may not answer: each fails alone."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

from gevent import GreenletExit
from pyinfra.api import FunctionCommand, Host, State
from pyinfra.api import operation as pyinfra_operation
from pyinfra.api.arguments_typed import PyinfraOperation
from pyinfra.context import ctx_host
from typing_extensions import ParamSpec

from lockstep.fast.read import FAULTS, strictly
from lockstep.unreadable import Unreadable

P = ParamSpec("P")


def operation() -> Callable[[Callable[P, Generator[Any, None, None]]], PyinfraOperation[P]]:
    """Make an operation of a generator. What it cannot read fails its own host, and no other.

    ``host.get_fact`` raises ``Unreadable`` in it where pyinfra hands out the fact's default.
    """

    def decorate(function: Callable[P, Generator[Any, None, None]]) -> PyinfraOperation[P]:
        @wraps(function)
        def alone(*args: P.args, **kwargs: P.kwargs) -> Generator[Any, None, None]:
            commands = function(*args, **kwargs)
            try:
                while True:
                    try:
                        with strictly():
                            command = next(commands)
                    except StopIteration:
                        return
                    except Unreadable as unreadable:
                        yield _fail(str(unreadable))
                        return
                    except FAULTS as error:
                        yield _fail(f"{function.__name__}: {error or type(error).__name__}")
                        return
                    yield command
            finally:
                commands.close()

        return pyinfra_operation()(alone)

    return decorate


def _fail(why: str) -> FunctionCommand:
    """Return a command that fails on its host; where nothing is executed yet the host ends here."""
    host: Host = ctx_host.get()  # type: ignore[no-untyped-call]  # pyinfra's
    state = host.state

    then = "" if "Next: " in why else f". Next: repair it on {host.name}, then run this again"

    def failed(state: State, host: Host) -> bool:
        host.log_styled(f"{host.name} failed: {why}{then}", fg="red", bold=True)
        return False

    if not state.is_executing:
        failed(state, host)
        # Not State.fail_hosts: without -y it asks whether to go on, once for each of these hosts.
        state.failed_hosts.add(host)
        state.active_hosts.discard(host)
        raise GreenletExit
    return FunctionCommand(failed, (), {})
