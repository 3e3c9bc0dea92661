"""The memory of a host that several greenlets talk to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gevent
import pytest
from gevent.event import Event
from pyinfra.api import Host
from pyinfra.api.state import StateStage
from pyinfra.connectors.util import CommandOutput, run_local_process

from lockstep.fast import foreseen, memory
from lockstep.fast.foreseen import Asked
from lockstep.fast.memory import Memory
from tests.fast.facts import Text

ARGUMENTS = {"_shell_executable": "sh", "_success_exit_codes": [0]}


class Node:
    """This machine, with two files whose facts are foreseen; executions are counted."""

    def __init__(self, folder: Path) -> None:
        self.files = [str(folder / name) for name in "ab"]
        self.write("old")
        self.executions = 0
        self.has_read, self.goes_on = Event(), Event()
        self.goes_on.set()
        known = [foreseen.asked(Text, (), {"path": path}) for path in self.files]
        foreseen.save(folder / "known", [fact for fact in known if fact])
        self.state = SimpleNamespace(is_executing=False, current_stage=StateStage.Prepare)
        self.memory = Memory(cast(Host, self), self.execute, folder / "known")

    def write(self, content: str) -> None:
        for file in self.files:
            Path(file).write_text(content + "\n", encoding="utf-8")

    def execute(self, command: Any, _stdin: str, **_: Any) -> tuple[bool, CommandOutput]:
        self.executions += 1
        done = run_local_process(str(command), stdin=_stdin)
        self.has_read.set()
        self.goes_on.wait()
        return done[0] == 0, done[1]

    def get_fact(self, kind: type[Text], path: str) -> str:
        """As pyinfra's own: through the connector."""
        command = kind().command(path)
        told = self.memory.answer(command, ARGUMENTS)
        self.executions += told is None
        return kind().process((told or run_local_process(command)[1]).stdout_lines)

    def read(self) -> list[str]:
        return [self.memory.get_fact(Text, path=path) for path in self.files]

    def log(self, said: str) -> None:
        pass


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def talk(node: Node, until: Event) -> None:
    with node.memory.untouched():
        until.wait()


def test_another_one_who_talks_to_the_node_does_not_keep_what_was_read(node: Node) -> None:
    """The head asks a worker while an operation of the worker is about to change it."""
    assert node.read() == ["old", "old"]
    over = Event()
    head = gevent.spawn(talk, node, over)
    gevent.sleep(0)
    node.memory.forget()
    over.set()
    head.join()
    node.write("new")
    assert node.read() == ["new", "new"]


def test_two_who_talk_at_once_leave_no_trace(node: Node) -> None:
    ends = [Event(), Event()]
    talking = [gevent.spawn(talk, node, end) for end in ends]
    gevent.sleep(0)
    for end, one in zip(ends, talking, strict=True):
        end.set()
        one.join()
    assert node.read() == ["old", "old"]
    assert node.executions == 1


def test_what_was_on_its_way_when_the_node_was_changed_does_not_count(node: Node) -> None:
    node.goes_on.clear()
    reading = gevent.spawn(node.read)
    node.has_read.wait()
    node.write("new")
    node.memory.forget()
    node.goes_on.set()
    assert reading.get() == ["new", "new"]


def test_who_decides_anew_is_told_nothing_from_before(node: Node) -> None:
    """Its second decision may ask for more than its first."""
    node.read()
    asked: list[list[str]] = []

    def operation() -> Iterator[str]:
        asked.append([node.memory.get_fact(Text, path=node.files[0])])
        if asked[-1] != ["old"]:
            asked[-1].append(node.memory.get_fact(Text, path=node.files[1]))
        yield "a command"

    node.write("new")
    assert list(node.memory.decide(operation)) == ["a command"]
    assert asked == [["old"], ["new", "new"]]


# -- begun when the host was connected


@pytest.fixture
def begun(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node that has its script, and whose answer is on its way."""
    monkeypatch.setattr(memory, "_arguments", lambda host: ARGUMENTS)
    node.goes_on.clear()
    node.memory.begin()
    return node


def test_who_asks_waits_for_what_was_begun(begun: Node) -> None:
    reading = gevent.spawn(begun.read)
    gevent.sleep(0)
    assert not reading.ready()
    begun.goes_on.set()
    assert reading.get() == ["old", "old"]
    assert begun.executions == 1


def test_what_was_begun_before_the_node_was_changed_does_not_count(begun: Node) -> None:
    begun.has_read.wait()
    begun.write("new")
    begun.memory.forget()
    held_up, begun.goes_on = begun.goes_on, Event()
    begun.goes_on.set()
    with gevent.Timeout(10):  # nor does anybody wait for it
        assert begun.read() == ["new", "new"]
    held_up.set()
    assert begun.read() == ["new", "new"]


def test_what_nobody_was_told_when_pyinfra_prepared_is_there_when_it_executes(begun: Node) -> None:
    begun.goes_on.set()
    begun.state.is_executing = True
    told = []

    def operation() -> Iterator[str]:
        told.extend(begun.read())
        yield from ()

    assert list(begun.memory.decide(operation)) == []
    assert told == ["old", "old"]
    assert begun.executions == 1


def test_what_was_begun_too_long_ago_is_read_again_in_one(
    begun: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker waits for its head: that says nothing of how long what it reads lasts."""
    begun.goes_on.set()
    begun.has_read.wait()
    gevent.sleep(0)
    later = time.monotonic() + memory.MOST_AGE_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    begun.write("new")
    assert begun.read() == ["new", "new"]
    assert begun.executions == 2


def test_a_connection_that_breaks_meanwhile_is_who_asks_business(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> tuple[bool, CommandOutput]:
        raise OSError("the line is cut")

    monkeypatch.setattr(memory, "_arguments", lambda host: ARGUMENTS)
    with monkeypatch.context() as cut:
        cut.setattr(node.memory, "_execute", broken)
        node.memory.begin()
    assert node.read() == ["old", "old"]
    assert capsys.readouterr().err == ""


def test_a_host_with_other_arguments_than_a_batch_can_have_is_left_alone(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory, "_arguments", lambda host: {**ARGUMENTS, "_sudo_password": "x"})
    node.memory.begin()
    assert node.executions == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("fact", "made"),
    [
        (Asked("pyinfra.facts.server", "Uptime", "[[], {}]"), ["one", "two"]),
        (Asked("lockstep.facts.gpus", "LoadedDriver", "[[], {}]"), ["one", "one"]),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_only_commands_of_facts_that_ask_no_host_are_made_once(
    fact: Asked, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyinfra's Uptime asks the host for its kernel, and says another command for another one."""
    foreseen._command_of_ours.cache_clear()
    kind = fact.kind()
    assert kind is not None
    commands = iter(("one", "two"))
    monkeypatch.setattr(kind, "command", lambda self: next(commands))
    assert [fact.command(), fact.command()] == made
    foreseen._command_of_ours.cache_clear()
