"""The record of a host that several greenlets talk to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gevent
import pytest
from gevent.event import Event
from pyinfra.api import Host, StringCommand
from pyinfra.api.state import StateStage
from pyinfra.connectors.util import CommandOutput

from lockstep.fast import record
from lockstep.fast.record import HostRecord
from lockstep.node.readers.selected import OVER
from lockstep.question import Question, Taken, Unreadable
from tests.fast.facts import line_of
from tests.fast.local_process import talk_to

ARGUMENTS = {"_shell_executable": "sh", "_success_exit_codes": [0]}


class Node:
    """This machine, with two files that its roles ask for; commands and requests are counted."""

    def __init__(self, folder: Path) -> None:
        self.files = [str(folder / name) for name in "ab"]
        self.write("old")
        self.executions = 0
        self.has_read, self.goes_on = Event(), Event()
        self.goes_on.set()
        self.arguments: dict[str, Any] = ARGUMENTS
        self.state = SimpleNamespace(
            is_executing=False,
            current_stage=StateStage.Prepare,
            print_fact_output=False,
            print_fact_input=False,
        )
        declared = [line_of(file).parts() for file in self.files]
        self.record = HostRecord(cast(Host, self), self.execute, self.start, lambda: declared)

    def write(self, content: str) -> None:
        for file in self.files:
            Path(file).write_text(content + "\n", encoding="utf-8")

    def execute(self, command: Any, _stdin: Any, **_: Any) -> tuple[bool, CommandOutput]:
        self.executions += 1
        return talk_to(str(command), _stdin)

    def start(self, command: Any, _stdin: Any, **_: Any) -> tuple[bool, CommandOutput]:
        """Start the process that takes readings; its answers are held up until ``goes_on``."""
        pass_on = _stdin.pass_on

        def held_up(lines: Iterable[str], channel: Any) -> Iterator[str]:
            def each() -> Iterator[str]:
                for line in lines:
                    if line.strip() == OVER:
                        self.has_read.set()
                        self.goes_on.wait()
                    yield line

            return cast(Iterator[str], pass_on(each(), channel))

        _stdin.pass_on = held_up
        return talk_to(str(command), _stdin, self.count)

    def count(self, line: str) -> None:
        self.executions += line.startswith("{")

    def get_fact(self, *_: Any) -> None:
        """pyinfra's own."""

    def read(self) -> list[str]:
        return [self.record.ask(line_of(path)) for path in self.files]

    def log(self, said: str) -> None:
        pass


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(record, "connector_arguments", lambda host: host.arguments)
    return Node(tmp_path)


def talk(node: Node, until: Event) -> None:
    with node.record.only_reading():
        until.wait()


def test_another_one_who_talks_to_the_node_does_not_keep_what_was_read(node: Node) -> None:
    """The head asks a worker while an operation of the worker is about to change it."""
    assert node.read() == ["old", "old"]
    over = Event()
    head = gevent.spawn(talk, node, over)
    gevent.sleep(0)
    node.record.note_command()
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
    node.record.note_command()
    node.goes_on.set()
    assert reading.get()[1] == "new"
    assert node.read() == ["new", "new"]


def test_an_operation_that_decides_anew_is_told_nothing_from_before(node: Node) -> None:
    """Its second decision may ask for more than its first."""
    node.read()
    asked: list[list[str]] = []

    def operation() -> Iterator[str]:
        asked.append([node.record.ask(line_of(node.files[0]))])
        if asked[-1] != ["old"]:
            asked[-1].append(node.record.ask(line_of(node.files[1])))
        yield "a command"

    node.write("new")
    node.state.is_executing = node.record._executing = True
    assert list(node.record.decide(operation)) == ["a command"]
    assert asked == [["old"], ["new", "new"]]


def test_what_is_asked_more_often_than_declared_is_read_together_from_then_on(node: Node) -> None:
    for executions in (1, 1 + 2, 1 + 2 + 1, 1 + 2 + 1 + 1):
        node.read()
        assert node.executions == executions
        node.record.note_command()


LATE = {"unread": "scontrol: did not finish within 30 s"}


@pytest.mark.parametrize(
    "late", [LATE, {"value": {"worker1": LATE}}, {"unread": "no answer within 50 s"}]
)
def test_a_reading_that_was_too_slow_is_taken_only_for_its_question(
    node: Node, late: dict[str, Any]
) -> None:
    """A program that waits for a daemon that does not run would delay every other reading."""
    name = line_of(node.files[0]).readings[0]
    node.record._readings.add({name: late}, (), "", time.monotonic())
    node.record.note_command()
    assert node.read() == ["old", "old"]
    assert node.executions == 2
    assert node.record._readings.too_slow == set()


@pytest.mark.parametrize("arguments", [{"_sudo": True}, {"_sudo": True, "_sudo_user": "slurm"}])
def test_another_user_is_told_nothing_of_the_record(node: Node, arguments: dict[str, Any]) -> None:
    assert node.read() == ["old", "old"]
    node.write("new")
    node.arguments = {**ARGUMENTS, **arguments}
    assert node.read() == ["new", "new"]
    node.write("newer")
    node.arguments = ARGUMENTS
    assert node.read() == ["newer", "newer"]


def test_with_other_arguments_each_question_is_read_alone(node: Node) -> None:
    node.arguments = {**ARGUMENTS, "_env": {"LC_ALL": "C"}}
    assert node.read() == ["old", "old"]
    assert node.executions == 2


def test_what_could_not_be_read_before_the_turn_is_read_once_more(node: Node) -> None:
    """Right behind the command that starts a service, the service may not answer yet."""
    node.read()
    line = line_of(node.files[0])

    def answer(taken: Taken) -> str:
        if line.answer(taken) == "old":
            raise Unreadable("the service", "it does not answer")
        return line.answer(taken)

    def operation() -> Iterator[str]:
        yield node.record.ask(Question("the service", line.readings, answer, line.about))

    node.state.is_executing = node.record._executing = True
    with pytest.raises(Unreadable):
        list(node.record.decide(operation))
    assert node.executions == 2
    node.write("new")
    assert next(iter(node.record.decide(operation))) == "new"


# -- begun when the host was connected


@pytest.fixture
def begun(node: Node) -> Node:
    """A node that has its program, and whose answer is on its way."""
    node.goes_on.clear()
    node.record.begin()
    return node


def test_a_question_waits_for_what_was_begun(begun: Node) -> None:
    reading = gevent.spawn(begun.read)
    gevent.sleep(0)
    assert not reading.ready()
    begun.goes_on.set()
    assert reading.get() == ["old", "old"]
    assert begun.executions == 1


def test_what_was_begun_before_the_node_was_changed_does_not_count(begun: Node) -> None:
    begun.has_read.wait()
    begun.write("new")
    begun.record.note_command()
    held_up, begun.goes_on = begun.goes_on, Event()
    begun.goes_on.set()
    with gevent.Timeout(10):  # no question waits for it
        assert begun.read() == ["new", "new"]
    held_up.set()
    assert begun.read() == ["new", "new"]


def test_a_command_waits_until_no_reading_is_taken(begun: Node) -> None:
    """A reading may hold the device or file that the command changes."""
    ran: list[StringCommand] = []

    def run(command: StringCommand, **_: Any) -> tuple[bool, CommandOutput]:
        ran.append(command)
        return True, CommandOutput([])

    running = gevent.spawn(begun.record.execute, StringCommand("true"), ARGUMENTS, run)
    begun.has_read.wait()
    gevent.sleep(0.1)
    assert not ran
    begun.goes_on.set()
    running.join(10)
    assert ran


def test_what_no_operation_asked_when_pyinfra_prepared_is_there_when_it_executes(
    begun: Node,
) -> None:
    begun.goes_on.set()
    begun.state.is_executing = True
    told = []

    def operation() -> Iterator[str]:
        told.extend(begun.read())
        yield from ()

    assert list(begun.record.decide(operation)) == []
    assert told == ["old", "old"]
    assert begun.executions == 1


def test_what_was_begun_too_long_ago_is_read_again_in_one(
    begun: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker waits for its head."""
    begun.goes_on.set()
    begun.has_read.wait()
    gevent.sleep(0)
    later = time.monotonic() + record.MOST_AGE_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    begun.write("new")
    assert begun.read() == ["new", "new"]
    assert begun.executions == 2


def test_a_connection_that_breaks_meanwhile_is_an_error_of_the_question(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> tuple[bool, CommandOutput]:
        raise OSError("the line is cut")

    with monkeypatch.context() as cut:
        cut.setattr(node.record, "_start", broken)
        node.record.begin()
    assert node.read() == ["old", "old"]
    assert capsys.readouterr().err == ""


def test_a_host_with_other_arguments_than_a_record_can_have_is_left_alone(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.arguments = {**ARGUMENTS, "_sudo_password": "x"}
    node.record.begin()
    assert node.executions == 0
    assert capsys.readouterr().err == ""


def test_a_login_shell_of_sudo_gets_plain_commands() -> None:
    """``sudo -i`` quotes what it passes on, except "$": a shell of its own would expand it."""
    assert record.usual({**ARGUMENTS, "_sudo": True}) is not None
    assert record.usual({**ARGUMENTS, "_sudo": True, "_use_sudo_login": True}) is None


def test_only_the_very_next_question_gets_readings_of_nvidia_smi_from_a_command(
    node: Node,
) -> None:
    """nvidia-smi takes longer than most commands."""
    one, other = (line_of(file).parts() for file in node.files)
    gpus = frozenset({("gpu.uuid", "", "")})
    asks = HostRecord(cast(Host, node), node.execute, node.start, lambda: [one, gpus, other])
    assert asks._due_next() == one | other
    asks._note_question(one)
    assert asks._due_next() == gpus | other
