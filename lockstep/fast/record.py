"""The record of one host: its readings, kept for as long as nothing changes the host.

Three rules make an answer from the record as good as a fresh one:

- Every command of a deploy drops the record, because a command such as a package installation may
  change anything.
- If an operation is about to change something based on readings from before its turn, they are
  taken again, and the operation decides again. It logs which values have changed in the meantime.
- A reading is never used if it is older than ``MOST_AGE_S``, or was taken in an earlier phase.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gevent import Greenlet, spawn, wait
from gevent.local import local
from pyinfra.api.state import StateStage
from pyinfra.connectors.util import CommandOutput

from lockstep.facts.reading import Execute, connector_arguments, failed, take
from lockstep.fast import read
from lockstep.fast.reader import Answer, Reader
from lockstep.fast.readings import Readings
from lockstep.probe.ship import SLOW
from lockstep.question import Part, Question, Taken, Unreadable

if TYPE_CHECKING:
    from pyinfra.api.command import StringCommand
    from pyinfra.api.host import Host

MOST_AGE_S = 30.0
"""Seconds. Older readings are taken again, for example after a wait for another host."""
FRESH_S = 5.0
"""Seconds for which readings taken after a command count as current."""
NEXT = 4
"""Number of upcoming questions whose parts are read right after a command; slow readings (``SLOW``)
are taken only for the first of them."""
RECORDED_WITH = {"_sudo", "_sudo_user", "_preserve_sudo_env"}
"""pyinfra arguments that allow a record; with others (``_env``), each question runs a command."""
OF_NO_CONCERN = {
    *("_shell_executable", "_success_exit_codes", "_timeout"),  # readings have their own limits
    *("_retries", "_retry_delay", "_retry_until", "_temp_dir"),  # used by operations only
}
T = TypeVar("T")


@dataclass
class _Turn:
    """One decision of an operation: the questions that it asks before it yields a command."""

    again: bool = False
    began: float = field(default_factory=time.monotonic)
    ahead: bool = False
    """Whether an answer came from readings that were taken before the operation's turn."""
    answers: list[tuple[str, Any]] = field(default_factory=list)
    parts: set[Part] = field(default_factory=set)
    """The parts that the questions asked for."""
    oldest: float = math.inf
    """The time at which the oldest of these parts was read."""


class _Doing(local):  # type: ignore[misc]  # gevent's has no types
    """State of each greenlet; one may change the host while an operation decides in another."""

    only_reads = False
    """Whether the record is kept while the greenlet runs commands (``only_reading``)."""
    turn: _Turn | None = None
    """The decision in progress; None if there is none."""
    command: object = None
    """The command that the operation yielded and pyinfra is running."""


class HostRecord:
    """Answers questions about one host, and makes its operations decide based on current values."""

    def __init__(
        self,
        host: Host,
        execute: Execute,
        start: Execute,
        declared: Callable[[], Sequence[frozenset[Part]]],
    ) -> None:
        """Create an empty record.

        Args:
            host: the host to keep a record of.
            execute: runs a command on the host.
            start: runs a command without a time limit.
            declared: returns the questions of the host's roles, in the order of a deploy.
        """
        self._host = host
        self._execute = execute
        self._start = start
        self._declared = declared
        self._get_fact = read.strict_where_asked(host, host.get_fact)
        self._readings = Readings()
        self._asked: Counter[Part] = Counter()
        """How often operations have asked for each part in this phase."""
        self._last = 0
        """The index of the declared question that was asked last."""
        self._with_what: str | None = None
        """The pyinfra arguments with which the readings are taken, as a key (``usual``)."""
        self._early: Greenlet[..., None] | None = None
        """Greenlet that adds readings to the record when they arrive; None if none are awaited."""
        self._reader: Reader | None = None
        self._reads_with: str | None = None
        """The pyinfra arguments of the reading process, as a key (``usual``)."""
        self._executing = False
        self._doing = _Doing()
        self.changed = False
        """Whether this run may have changed the host."""

    # -- questions

    def begin(self) -> None:
        """Start reading the parts that the roles will ask for; return once the request is sent.

        This process imports the roles while the node takes the readings.
        """
        wanted, arguments = self._all_declared(), connector_arguments(self._host)
        with_what = usual(arguments)
        if wanted and with_what is not None:
            reader = self._new_reader(arguments, with_what)
            answer = reader.start(wanted)
            self._early = spawn(self._add, self._readings, answer, wanted, with_what)
            wait([reader.sent, self._early], count=1)

    def ask(self, question: Question[T]) -> T:
        """Answer as ``lockstep.facts.reading.ask`` does, from the record if it is still valid."""
        self._begin_phase()
        arguments, wanted = connector_arguments(self._host), question.parts()
        with_what, turn = usual(arguments), self._doing.turn
        # A question from a running command is part of no decision, so it bypasses the record.
        preparing = self._host.state.current_stage is StateStage.Prepare
        decides = turn is not None if self._executing else preparing
        if not decides or with_what is None:
            return question.answer(Taken(self._take(wanted, arguments, None)))
        if self._early is not None:
            self._early.join()
        self._with_what = with_what
        # Outside a turn, no reading is too early.
        turn = turn or _Turn(began=-math.inf)
        if not turn.again:
            self._note_question(wanted)
        since = time.monotonic() - MOST_AGE_S
        readings = self._readings
        if not readings.has(wanted, with_what, since):
            # If the record is dropped in the meantime, only this question sees these readings.
            readings = self._keep(wanted | self._due(), arguments, with_what)
        turn.parts |= wanted
        turn.oldest = min(turn.oldest, readings.oldest(wanted))
        turn.ahead |= turn.oldest < turn.began - (FRESH_S if readings.after_command else 0)
        try:
            value = question.answer(Taken(readings.values))
        except Unreadable:
            reader = self._reader
            is_new = reader is None or reader.started_at >= turn.began
            if is_new and readings.oldest(wanted) >= turn.began:
                raise
            # It may have been read too early, such as right after a command that starts a service,
            # or by a process that is older than a program that it needs.
            self._end_reader()
            readings = self._keep(wanted, arguments, with_what)
            value = question.answer(Taken(readings.values))
        turn.answers.append((question.name, value))
        return value

    def get_fact(self, kind: type[Any], *given: Any, **named: Any) -> Any:
        """Answer as ``Host.get_fact`` does: pyinfra's facts are read on every call."""
        with self.only_reading():
            return self._get_fact(kind, *given, **named)

    def _due(self) -> frozenset[Part]:
        """Return the parts that the roles will still ask for in this phase, and that come in time.

        Parts that they asked for more often than declared are included, because they may ask again.
        """
        declared = Counter(filter(self._readings.in_time, itertools.chain(*self._declared())))
        return frozenset(part for part, times in declared.items() if times != self._asked[part])

    def _due_next(self) -> frozenset[Part]:
        """Return the due parts of the next few questions; reading more would slow commands down."""
        due = self._due()
        ahead = (parts & due for parts in self._declared()[self._last :])
        first, *others = [*itertools.islice(filter(None, ahead), NEXT), frozenset[Part]()]
        return first.union(part for parts in others for part in parts if part[0] not in SLOW)

    def _note_question(self, wanted: frozenset[Part]) -> None:
        self._asked.update(wanted)
        declared = self._declared()
        for number in (*range(self._last, len(declared)), *range(self._last)):
            if declared[number] and (declared[number] <= wanted or wanted <= declared[number]):
                self._last = number
                break

    def _keep(
        self, wanted: frozenset[Part], arguments: Mapping[str, Any], with_what: str
    ) -> Readings:
        readings, now = self._readings, time.monotonic()
        readings.after_command |= self.changed
        readings.add(self._take(wanted, arguments, with_what), wanted, with_what, now)
        return readings

    def _keep_if_possible(self, wanted: frozenset[Part], arguments: Mapping[str, Any]) -> None:
        with_what = usual(arguments)
        if with_what is not None:
            with suppress(Unreadable):  # the question reads again, and reports the failure
                self._keep(wanted, arguments, with_what)

    def _add(
        self, readings: Readings, answer: Answer, wanted: frozenset[Part], with_what: str
    ) -> None:
        # If the record is dropped in the meantime, no question sees these readings.
        with suppress(Unreadable):  # the question reads again, and reports the failure
            readings.add(answer.get(), wanted, with_what, answer.at)

    def _take(
        self, wanted: frozenset[Part], arguments: Mapping[str, Any], with_what: str | None
    ) -> dict[str, Any]:
        """Take readings with the reading process or, if it cannot answer now, with a command.

        Args:
            wanted: the parts to read.
            arguments: pyinfra's arguments.
            with_what: a key for these arguments; None if the readings are not to be recorded.
        """
        reader = self._reader
        if reader is not None and reader.hangs:
            raise failed(())  # asking again would take as long
        if wanted and with_what is not None:
            if reader is None or reader.is_over or with_what != self._reads_with:
                reader = self._new_reader(arguments, with_what)
                return dict(reader.start(wanted, self._all_declared()).get())
            if reader.can_answer(wanted):
                with suppress(Unreadable):
                    return dict(reader.ask(wanted).get())
                self._end_reader()  # it may be older than a program that it needs
        with self.only_reading():
            return take(self._host, self._execute, wanted, arguments)

    def _all_declared(self) -> frozenset[Part]:
        return frozenset[Part]().union(*self._declared())

    def _new_reader(self, arguments: Mapping[str, Any], with_what: str) -> Reader:
        self._end_reader()
        self._reader, self._reads_with = Reader(self._host, self._start, arguments), with_what
        return self._reader

    def _end_reader(self) -> None:
        if self._reader is not None:
            self._reader.end()
            self._reader = None

    def settle(self) -> None:
        """Wait until no readings are being taken; the host's next command waits for them, too."""
        if self._reader is not None:
            self._reader.settle()

    @contextmanager
    def only_reading(self) -> Iterator[None]:
        """Keep the record during commands that change nothing or for which it was just dropped."""
        before, self._doing.only_reads = self._doing.only_reads, True
        try:
            yield
        finally:
            self._doing.only_reads = before

    # -- operations

    def decide(self, commands: Callable[[], Iterator[T]]) -> Iterator[T]:
        """Yield the commands of an operation, based on the host's state when the operation runs.

        Args:
            commands: returns the generator of the commands; a second decision calls it again.
        """
        self._begin_phase()
        turn = _Turn()
        generator: Any = commands()  # pyinfra types it as an iterator, which has no close()
        try:
            command = self._next(generator, turn)
            if command is not None and turn.ahead:
                self.note_command()  # the second decision may ask for more than the first
                self._keep_if_possible(frozenset(turn.parts), connector_arguments(self._host))
                generator.close()
                generator = commands()
                command = self._decide_again(generator, turn)
            while command is not None:
                self.note_command()
                self._doing.command = command
                yield command
                self._doing.command = None
                command = self._next(generator, _Turn())
        finally:
            self._doing.command = None
            generator.close()

    def execute(
        self, command: StringCommand, arguments: Mapping[str, Any], run: Execute
    ) -> tuple[bool, CommandOutput]:
        """Run a command of the deploy; after an operation's command, take the next readings.

        Args:
            command: the command.
            arguments: pyinfra's arguments for the command.
            run: runs a command on the host.
        """
        self.note_command()
        self.settle()  # a reading may hold the device or file that the command changes
        with self.only_reading():  # pyinfra may run more commands, such as for sudo's password
            with_what = usual({**arguments, "_stdin": None})
            due = self._due_next() if command is self._doing.command else frozenset()
            if not due or with_what is None or with_what != self._with_what:
                return run(command, **arguments)
            reader = self._reader
            if reader is None or with_what != self._reads_with or not reader.can_answer(due):
                return run(command, **arguments)
            readings, answer = self._readings, reader.ask(due, waits=True)
            succeeded = False
            try:
                succeeded, output = run(reader.before(command), **arguments)
            finally:
                if not succeeded:
                    self._end_reader()  # it waits; the command may go on, if its session was lost
            if succeeded:
                reader.begin(answer)
                readings.after_command = True
                self._early = spawn(self._add, readings, answer, due, with_what)
            return succeeded, output

    def _decide_again(self, generator: Iterator[T], before: _Turn) -> T | None:
        now = _Turn(again=True)
        command = self._next(generator, now)
        changed = [
            name
            for (name, was), (_, is_) in zip(before.answers, now.answers, strict=False)
            if was != is_
        ]
        if changed:
            self._host.log(
                f"{', '.join(dict.fromkeys(changed))} changed in the last "
                f"{now.began - before.oldest:.0f} s, so the operation decided again"
            )
        return command

    def _next(self, generator: Iterator[T], turn: _Turn) -> T | None:
        self._doing.turn = turn
        try:
            return next(generator, None)
        finally:
            self._doing.turn = None  # the next commands are part of no decision

    # -- invalidation

    def note_command(self) -> None:
        """Drop the record, because a command may change the host."""
        if not self._doing.only_reads:
            self.drop()
            self.changed = True

    def drop(self) -> None:
        """Make the next question read all its parts again, even those that are being read now."""
        self._readings, self._early = Readings(too_slow=self._readings.too_slow), None

    def disconnected(self) -> None:
        """Drop the record and the reading process, which ends with its connection."""
        self._end_reader()
        self.drop()

    def start_again(self) -> None:
        """Drop the record and forget what was asked: the roles may ask for all of it again."""
        self._asked.clear()
        self._last = 0
        self.drop()

    def _begin_phase(self) -> None:
        """Drop the record between pyinfra's two phases, because pyinfra rereads its facts, too."""
        executing = self._host.state.is_executing
        if executing != self._executing and self._asked:
            self.start_again()
        # If no operation has asked yet, the readings so far are for this phase.
        self._executing = executing


def usual(arguments: Mapping[str, Any]) -> str | None:
    """Return the arguments of a command as a key; None if no record can be kept with them."""
    if arguments.get("_shell_executable") != "sh" or arguments.get("_success_exit_codes") != [0]:
        return None
    given = {
        name: value for name, value in arguments.items() if value and name not in OF_NO_CONCERN
    }
    return json.dumps(given, sort_keys=True) if set(given) <= RECORDED_WITH else None
