"""The project's decorator for operations: a failed reading stops its host, and no other."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import gevent
import pytest
from pyinfra import host
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operation import add_op
from pyinfra.api.operations import run_ops
from pyinfra.api.state import State

from lockstep.question import Unreadable
from lockstep.roles.operations.operation import operation
from tests.fast.facts import Answer
from tests.roles.local import machine

ended: list[str] = []


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


@operation()
def reads(command: str) -> Generator[str, None, None]:
    """Read a number; note that it came to its end."""
    try:
        yield f"echo {host.get_fact(Answer, command=command)}"
    finally:
        ended.append(command)


@operation()
def reads_within(command: str) -> Generator[str, None, None]:
    """Do it as a part of another operation."""
    yield from reads._inner(command=command)


@operation()
def has_a_bug() -> Generator[str, None, None]:
    """Raise what no node is the reason for."""
    nothing: dict[str, str] = {}
    yield nothing["missing"]


@operation()
def says(error: Exception) -> Generator[str, None, None]:
    """Raise what a reading or a connection does."""
    raise error
    yield


def prepared(name: str = "@local", **arguments: Any) -> State:
    """pyinfra with one operation, prepared as it loads a deploy: in a greenlet."""
    state = machine(name)
    kind = arguments.pop("kind", reads)
    gevent.spawn(lambda: add_op(state, kind, **arguments)).get()
    return state


UNREADABLE = {
    "exit 1": "the command failed: no message",
    "echo first >&2; echo last >&2; exit 3": "the command failed: last",
    "true": "the command printed nothing",
    "echo garbage": "unexpected output: ValueError: invalid literal",
    "echo wrong": "unexpected output: FactProcessError: no number: wrong",
}


@pytest.mark.parametrize("kind", [reads, reads_within])
@pytest.mark.parametrize("command", UNREADABLE)
def test_what_cannot_be_read_fails_the_host_when_it_is_prepared(
    command: str, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ended.clear()
    state = prepared(kind=kind, command=command)
    assert [one.name for one in state.failed_hosts] == ["@local"]
    assert not state.active_hosts
    assert ended == [command]
    assert f"@local failed: Answer could not be read: {UNREADABLE[command]}" in caplog.text
    assert "Next: repair @local, then run this again" in caplog.text


@pytest.mark.parametrize("kind", [reads, reads_within])
@pytest.mark.parametrize("command", UNREADABLE)
def test_what_cannot_be_read_fails_the_operation_when_it_is_executed(
    command: str, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ended.clear()
    state = machine()
    state.check_for_changes = False  # as with -y
    add_op(state, kind, command=command)
    with pytest.raises(PyinfraError, match="No hosts remaining"):
        run_ops(state)
    assert ended == [command]
    assert f"@local failed: Answer could not be read: {UNREADABLE[command]}" in caplog.text


@pytest.mark.parametrize("error", [EOFError(), OSError("cut"), Unreadable("Boot", "cut")], ids=repr)
def test_so_does_what_a_connection_raises(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(prepared(kind=says, error=error).failed_hosts) == 1
    assert "@local failed: " in caplog.text


def test_what_can_be_read_is_handed_out() -> None:
    ended.clear()
    state = prepared(command="echo 1")
    run_ops(state)
    assert not state.failed_hosts
    assert ended == ["echo 1", "echo 1"]


def test_a_bug_is_no_node_s_fault() -> None:
    with pytest.raises(KeyError):
        prepared(kind=has_a_bug)


def test_outside_of_an_operation_a_fact_is_pyinfra_s() -> None:
    """It hands out the default, and fails the host itself."""
    state = prepared(command="echo 1")
    (one,) = state.inventory
    assert one.get_fact(Answer, command="true") is None
    with pytest.raises(PyinfraError, match="No hosts remaining"):
        one.get_fact(Answer, command="exit 1")
