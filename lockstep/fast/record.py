"""The record of one host: its readings, kept for as long as nothing changes the host.

Three rules make an answer from the record as good as a fresh one:

- Every command of a deploy drops the record, because a command such as a package installation may
  change anything.
- If an operation is about to change something because of readings from before its turn, they are
  taken again, and the operation decides again. It logs which values have changed in the meantime.
- A reading is never used if it is older than ``MOST_AGE_S``, or was taken in an earlier phase.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gevent import Greenlet, spawn, wait
from gevent.event import Event
from gevent.local import local
from pyinfra.api.state import StateStage
from pyinfra.connectors.util import CommandOutput, OutputLine
from typing_extensions import override

from lockstep.facts.reading import Execute, connector_arguments, program, taken
from lockstep.fast import read
from lockstep.fast.along import Along
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.ship import SLOW, answered
from lockstep.question import Part, Question, Taken, Unreadable

if TYPE_CHECKING:
    from pyinfra.api.command import StringCommand
    from pyinfra.api.host import Host

MOST_AGE_S = 30.0
"""Seconds. Older readings are taken again, for example after a wait for another host."""
FRESH_S = 5.0
"""Seconds for which readings taken with a command count as current."""
NEXT = 4
"""Number of upcoming questions whose parts are read along with a command; slow readings (``SLOW``)
are taken only for the first of them."""
RECORDED_WITH = {"_sudo", "_sudo_user", "_preserve_sudo_env"}
"""pyinfra arguments that allow a record; with any others (``_env``), all questions run commands."""
OF_NO_CONCERN = {
    *("_shell_executable", "_success_exit_codes"),
    *("_retries", "_retry_delay", "_retry_until", "_temp_dir"),  # used by operations only
}
T = TypeVar("T")


@dataclass
class Readings:
    """Readings of one host, taken with one set of pyinfra arguments."""

    values: dict[str, Any] = field(default_factory=dict)
    """Name -> reading, in the form that the program on the node prints."""
    after_command: bool = False
    """Whether the readings were taken after a command of this run, with no other command since."""
    _read_at: dict[Part, float] = field(default_factory=dict)
    _with_what: str = ""

    def add(
        self, values: Mapping[str, Any], wanted: Iterable[Part], with_what: str, at: float
    ) -> None:
        """Add readings, which replace earlier ones with the same names.

        Earlier readings that were taken with other arguments (``with_what``) are all dropped.
        """
        if with_what != self._with_what:
            self.values, self._read_at, self._with_what = {}, {}, with_what
        self.values.update(values)
        self._read_at = {part: one for part, one in self._read_at.items() if part[0] not in values}
        self._read_at.update(dict.fromkeys(wanted, at))

    def has(self, wanted: Iterable[Part], with_what: str, since: float) -> bool:
        """Return whether all wanted parts were read with these arguments, at ``since`` or later."""
        return self._with_what == with_what and self.oldest(wanted) >= since

    def oldest(self, wanted: Iterable[Part]) -> float:
        """Return the time at which the oldest of the wanted parts was read."""
        return min((self._read_at.get(part, -math.inf) for part in wanted), default=math.inf)


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


class _Program(list[str]):
    """Text for a command's standard input, with an event that is set when it has been sent."""

    def __init__(self, text: str) -> None:
        super().__init__([text])
        self.sent = Event()

    @override
    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        self.sent.set()


class HostRecord:
    """Answers questions about one host, and makes its operations decide based on current values."""

    def __init__(
        self, host: Host, execute: Execute, declared: Callable[[], Sequence[frozenset[Part]]]
    ) -> None:
        """Create an empty record.

        Args:
            host: the host to keep a record of.
            execute: runs a command on the host.
            declared: returns the questions of the host's roles, in the order of a deploy.
        """
        self._host = host
        self._execute = execute
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
        self._executing = False
        self._doing = _Doing()
        self.changed = False
        """Whether this run may have changed the host."""

    # -- questions

    def begin(self) -> None:
        """Start reading the parts that the roles will ask for; return once the request is sent.

        This process imports the roles while the node takes the readings.
        """
        wanted = frozenset[Part]().union(*self._declared())
        if wanted:
            text, arguments = _Program(program(wanted)), connector_arguments(self._host)
            self._early = spawn(self._keep_if_possible, wanted, arguments, text)
            wait([text.sent, self._early], count=1)

    def ask(self, question: Question[T]) -> T:
        """Answer as ``lockstep.facts.reading.ask`` does, from the record if it is still valid."""
        self._begin_phase()
        arguments, wanted = connector_arguments(self._host), question.parts()
        with_what, turn = usual(arguments), self._doing.turn
        # A question from a running command is part of no decision, so it bypasses the record.
        preparing = self._host.state.current_stage is StateStage.Prepare
        decides = turn is not None if self._executing else preparing
        if not decides or with_what is None:
            return question.answer(Taken(self._take(wanted, arguments)))
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
            if readings.oldest(wanted) >= turn.began:
                raise
            # It may have been read too early, such as right after a command that starts a service.
            readings = self._keep(wanted, arguments, with_what)
            value = question.answer(Taken(readings.values))
        turn.answers.append((question.name, value))
        return value

    def get_fact(self, kind: type[Any], *given: Any, **named: Any) -> Any:
        """Answer as ``Host.get_fact`` does: pyinfra's facts are read on every call."""
        with self.only_reading():
            return self._get_fact(kind, *given, **named)

    def _due(self) -> frozenset[Part]:
        """Return the parts that the roles will still ask for in this phase.

        Parts that they asked for more often than declared are included, because they may ask again.
        """
        declared = Counter(part for parts in self._declared() for part in parts)
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
        self,
        wanted: frozenset[Part],
        arguments: Mapping[str, Any],
        with_what: str,
        text: _Program | None = None,
    ) -> Readings:
        readings, now = self._readings, time.monotonic()
        readings.after_command |= self.changed
        readings.add(self._take(wanted, arguments, text), wanted, with_what, now)
        return readings

    def _keep_if_possible(
        self, wanted: frozenset[Part], arguments: Mapping[str, Any], text: _Program | None = None
    ) -> None:
        with_what = usual(arguments)
        if with_what is not None:
            with suppress(Unreadable):  # the question reads again, and reports the failure
                self._keep(wanted, arguments, with_what, text)

    def _take(
        self, wanted: frozenset[Part], arguments: Mapping[str, Any], text: _Program | None = None
    ) -> dict[str, Any]:
        if not wanted:
            return {}
        with self.only_reading():
            return taken(self._host, self._execute, text or program(wanted), arguments)

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
        """Run a command of the deploy; with an operation's command, also take the next readings.

        Args:
            command: the command.
            arguments: pyinfra's arguments for the command.
            run: runs a command on the host.
        """
        self.note_command()
        with self.only_reading():  # pyinfra may run more commands, such as for sudo's password
            with_what = usual({**arguments, "_stdin": None})
            due = self._due_next() if command is self._doing.command else frozenset()
            if not due or with_what is None or with_what != self._with_what:
                return run(command, **arguments)
            readings, along = self._readings, Along(due, arguments.get("_stdin"))
            try:
                _, output = run(along.command(command), **{**arguments, "_stdin": along})
            except OSError:
                if along.status is None:
                    raise
                # The connection was lost after the command had ended: the command's status counts.
                output = CommandOutput([OutputLine("stdout", line) for line in along.said])
            with suppress(ProbeFormatError):  # the command or the reading may have failed
                # If the record is dropped in the meantime, no question sees these readings.
                readings.add(answered(along.reading), due, with_what, along.ended_at)
                readings.after_command = True
            # The session's own status is that of Python.
            return along.status == 0, output

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
        self._readings, self._early = Readings(), None

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
