"""Facts read ahead: the first that is asked for brings all that will be, in one execution.

What was read is handed out from memory until the host's first change. Three things keep that as
good as reading each fact when it is asked for:

- Only a command line that is the same to the letter is answered, only to ``host.get_fact``, and
  only while an operation decides what to do (or a deploy is prepared). Once an operation has a
  command to run, all that was read of its host is forgotten.
- An operation that wants to change something, and decided so on what was read before its turn,
  reads that again and decides anew. What something else changed meanwhile is said.
- Nothing is handed out that is older than ``MOST_AGE_S``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

from gevent import Greenlet, spawn
from gevent.local import local
from pyinfra.api import StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.api.state import StateStage
from pyinfra.connectors.util import CommandOutput, OutputLine

from lockstep.facts.reading import (
    Part,
    Question,
    Taken,
    Unreadable,
    connector_arguments,
    take,
)
from lockstep.fast import batch, foreseen, read
from lockstep.fast.early import Early, Script
from lockstep.fast.foreseen import Asked, ReadCommand
from lockstep.fast.record import Record

if TYPE_CHECKING:
    from pyinfra.api.host import Host

MOST_AGE_S = 30.0
"""Who waits longer, for a slow operation of another host, reads again."""
SLOW_S = 10.0
"""A batch that took longer has a fact that holds up all others: no further one is made."""
BATCHED_WITH = {"_sudo", "_sudo_user", "_use_sudo_login", "_preserve_sudo_env"}
"""Arguments that a batch can have; with others (``_env``, ``_timeout``) a fact is read alone."""

OF_NO_CONCERN = {
    *("_shell_executable", "_success_exit_codes"),
    *("_retries", "_retry_delay", "_retry_until", "_temp_dir"),  # of operations
}

T = TypeVar("T")
Key = tuple[str, str]
"""Command line, and what it is run with."""
Execute = Callable[..., tuple[bool, CommandOutput]]
"""``run_shell_command`` of the connector, as pyinfra has it."""


@dataclass(frozen=True)
class Held:
    """What a command said, and when (monotonic, in seconds)."""

    output: CommandOutput
    at: float


@dataclass
class Turn:
    """One operation of the host, from its first fact to its first command."""

    began: float
    anew: bool = False
    used: dict[Key, Held] = field(default_factory=dict)
    told: list[tuple[str, Any]] = field(default_factory=list)
    parts: set[Part] = field(default_factory=set)
    """What its questions were about."""
    oldest: float = math.inf
    """When the first of these was read."""

    @property
    def ahead(self) -> bool:
        """Whether it was told something that was read before its turn."""
        return any(held.at < self.began for held in self.used.values()) or self.oldest < self.began


class Doing(local):  # type: ignore[misc]  # gevent's has no types
    """What a greenlet does with the host: of two at once one may decide, and the other change."""

    asking = False
    """Reads a fact."""
    busy = False
    """Runs a command of ours, or one that we let pass."""
    turn: Turn | None = None
    """Decides what an operation does."""


class Memory:
    """What was read of one host, what will be asked for, and what an operation was told."""

    def __init__(
        self,
        host: Host,
        execute: Execute,
        file: Path | None,
        ahead: Callable[[], frozenset[Part]] = frozenset,
    ) -> None:
        """Start with nothing read.

        Args:
            host: of the memory.
            execute: runs a command on it.
            file: with the facts that are foreseen; None: those that the run itself shows.
            ahead: says what the roles of this host will ask for.
        """
        self._ahead_of_all = ahead
        self._record = Record()
        self._done: set[Part] = set()
        """What was asked for in this phase."""
        self._host = host
        self._execute = execute
        self._file = file
        self._get_fact = read.strict_where_asked(host, host.get_fact)
        self._held: dict[Key, Held] = {}
        self._known: list[Asked] | None = None
        self._due: list[Asked] = []
        self._failed: set[Key] = set()
        """Not read ahead again; when they are asked for they may be answered."""
        self._together = True
        """One command may read many facts of a kind."""
        self._prepared: list[Asked] = []
        self._asked: list[Asked] = []
        self._window: int | None = None
        """How many are read at once; None: all."""
        self._early: Early | None = None
        self._takes: Greenlet[[frozenset[Part]], None] | None = None
        self._doing = Doing()
        self._executing = False
        self.changed = False
        """This run may have changed the host."""

    # -- facts

    def begin(self) -> None:
        """Have read what is foreseen, for whom asks first; the host was just connected."""
        if self._known is None and self._file is not None:
            self._foresee()
            with_what = _usual(_arguments(self._host))
            if with_what is not None:
                self._read(self._ahead(with_what), with_what, early=True)
        wanted = self._ahead_of_all()
        if wanted:
            self._takes = spawn(self._take_if_possible, wanted)

    # -- readings

    def ask(self, question: Question[T]) -> T:
        """Do as ``lockstep.facts.reading.ask``: of what was read, where that is good still."""
        self._begin_phase()
        arguments, turn = connector_arguments(self._host), self._doing.turn
        wanted = question.parts()
        with_what = _usual(arguments)
        if not self._may_answer or with_what is None:
            return question.answer(Taken(self._take(wanted, arguments)))
        if self._takes is not None:
            self._takes.join()
        self._done |= wanted
        record, since = self._record, time.monotonic() - MOST_AGE_S
        if not record.has(wanted, with_what, since):
            if record.is_old(since):
                self._record = Record()
            due = self._ahead_of_all() - self._done
            record = self._keep(wanted | due, with_what, arguments)
        if turn is not None:
            turn.parts |= wanted
            turn.oldest = min(turn.oldest, record.oldest(wanted))
        value = question.answer(Taken(record.readings))
        if turn is not None:
            turn.told.append((question.name, value))
        return value

    def _keep(self, wanted: frozenset[Part], with_what: str, arguments: dict[str, Any]) -> Record:
        """Read into the record; where that is dropped meanwhile, only this question sees it."""
        record, now = self._record, time.monotonic()
        record.add(self._take(wanted, arguments), wanted, with_what, now)
        return record

    def _take(self, wanted: frozenset[Part], arguments: dict[str, Any]) -> dict[str, Any]:
        with self.untouched():
            return take(self._host, self._execute, wanted, arguments)

    def _take_if_possible(self, wanted: frozenset[Part]) -> None:
        arguments = connector_arguments(self._host)
        with_what = _usual(arguments)
        if with_what is None:
            return
        try:
            self._keep(wanted, with_what, arguments)
        except Unreadable:
            return  # the first question reads it again, and hears why not

    def get_fact(self, kind: type[Any], *given: Any, **named: Any) -> Any:
        """Do as ``Host.get_fact``; remember that this fact was asked for."""
        self._begin_phase()
        fact, turn = foreseen.asked(kind, given, named), self._doing.turn
        if fact is not None and self._may_answer and not (turn and turn.anew):
            self._asked.append(fact)
            if fact in self._due:
                self._due.remove(fact)
        before, self._doing.asking = self._doing.asking, True
        try:
            value = self._get_fact(kind, *given, **named)
        finally:
            self._doing.asking = before
        if turn is not None:
            turn.told.append((kind.__name__, value))
        return value

    @property
    def _may_answer(self) -> bool:
        """Whether this is a fact for a decision, and not a question of something that runs."""
        if self._executing:
            return self._doing.turn is not None
        return self._host.state.current_stage is StateStage.Prepare

    def answer(
        self, command: str | StringCommand, arguments: dict[str, Any]
    ) -> CommandOutput | None:
        """Return what a command says, where it is in memory or can be; None: run it as usual."""
        if self._doing.busy:
            return None
        if not (self._doing.asking and self._may_answer):
            self.forget()  # nobody knows what it does
            return None
        with_what = _usual(arguments)
        if with_what is None:
            return None
        key = (foreseen.text(command), with_what)
        if self._early is not None:
            self._early.arrive()
        held = self._fresh(key)
        if held is None and key not in self._failed:
            if key in self._held:  # too old
                # Of what came with the connection that is no wonder: the host had to wait.
                self.renew() if self._early else self.forget()
            self._read([foreseen.alone(key[0]), *self._ahead(with_what)], with_what)
            held = self._held.get(key)
        if held is None:
            return None
        if self._doing.turn is not None:
            self._doing.turn.used[key] = held
        return held.output

    def _fresh(self, key: Key) -> Held | None:
        held = self._held.get(key)
        return held if held and time.monotonic() - held.at <= MOST_AGE_S else None

    def _ahead(self, with_what: str) -> list[ReadCommand]:
        """Return what to read together with a fact that has to be read."""
        due = self._due
        if self._window is not None:
            # Few at first: the next operation may change something as well.
            due = due[: self._window - 1]
            self._window *= 2
        wanted = {
            command: fact
            for fact in due
            if (command := fact.command()) is not None
            and (command, with_what) not in self._failed
            and self._fresh((command, with_what)) is None
        }
        return foreseen.read_commands(wanted, together=self._together)

    def _read(self, reads: list[ReadCommand], with_what: str, *, early: bool = False) -> None:
        """Read in one execution; what is alone is left to be read as usual."""
        once: dict[tuple[str, ...], ReadCommand] = {}
        for one in reads:
            once.setdefault(one.commands, one)  # what is asked for has no condition, and is first
        reads = [*once.values()]
        if sum(len(one.commands) for one in reads) < 2:
            return
        token = token_hex()
        script = batch.script([one.command for one in reads], token)
        held = self._held  # another one, if somebody forgets it meanwhile

        def read(stdin: str | Script) -> None:
            now = time.monotonic()
            with self.untouched():
                # On standard input: arguments of a process have a limit, and others see them.
                _, output = self._execute(
                    StringCommand("sh"), **json.loads(with_what), _stdin=stdin
                )
            said = batch.answers(output, token)
            for number, one in enumerate(reads):
                answer = said.get(number)
                parts = _parts(one, answer.output) if answer and answer.ok else {}
                held.update(
                    ((command, with_what), Held(part, now)) for command, part in parts.items()
                )
                if not parts and len(one.commands) > 1:
                    self._together = False  # one of them fails, nobody knows which
                elif not parts:
                    self._failed.add((one.commands[0], with_what))
            if time.monotonic() - now > SLOW_S:
                self._due = []

        if early:
            self._early = Early(script, read)
        else:
            read(script)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Let commands pass that pyinfra needs for another one (sudo's password)."""
        before, self._doing.busy = self._doing.busy, True
        try:
            yield
        finally:
            self._doing.busy = before

    # -- operations

    def decide(self, commands: Callable[[], Iterator[T]]) -> Iterator[T]:
        """Yield the commands of an operation; it decides on what is so when it runs.

        Args:
            commands: of the operation, from its own generator; called again to decide anew.
        """
        self._begin_phase()
        turn = Turn(time.monotonic())
        generator = commands()
        try:
            command = self._next(generator, turn)
            if command is not _END and turn.ahead:
                _close(generator)
                anew = Turn(time.monotonic(), anew=True)
                self._read_again(list(turn.used))
                if turn.parts:
                    self._take_again(frozenset(turn.parts))
                generator = commands()
                command = self._next(generator, anew)
                self._say_what_changed(turn, anew)
            while command is not _END:
                self.forget()
                yield command
                command = self._next(generator, Turn(time.monotonic()))
        finally:
            _close(generator)

    def _next(self, generator: Iterator[T], turn: Turn) -> T | Any:
        self._doing.turn = turn
        try:
            return next(generator, _END)
        finally:
            self._doing.turn = None  # what runs now is no decision

    def _read_again(self, keys: list[Key]) -> None:
        self.forget()  # the second decision may ask for more than the first
        for with_what in {key[1] for key in keys}:
            commands = dict.fromkeys(command for command, what in keys if what == with_what)
            # The operation, which asks next, is told why.
            with suppress(*read.FAULTS):
                self._read([foreseen.alone(command) for command in commands], with_what)

    def _take_again(self, wanted: frozenset[Part]) -> None:
        arguments = connector_arguments(self._host)
        with_what = _usual(arguments)
        if with_what is not None:
            self._keep(wanted, with_what, arguments)

    def _say_what_changed(self, before: Turn, now: Turn) -> None:
        changed = [
            name for (name, was), (_, is_) in zip(before.told, now.told, strict=False) if was != is_
        ]
        if changed:
            age = now.began - min([before.oldest, *(held.at for held in before.used.values())])
            self._host.log(
                f"changed by something else in the last {age:.0f} s, decided anew: "
                + ", ".join(dict.fromkeys(changed))
            )

    def forget(self) -> None:
        """What was read counts no longer: the host may be changed now, or it took too long.

        From here on few are read at once: of many the last might be too old again.
        """
        if not self._doing.busy:
            self.renew()
            self._window = 1
            self.changed = True

    def renew(self) -> None:
        """What was read counts no longer: other hosts were changed."""
        self._held = {}
        self._early = None
        self._record, self._takes = Record(), None

    # -- what is foreseen

    def _begin_phase(self) -> None:
        """Between its two phases pyinfra reads everything again, and so do we."""
        executing = self._host.state.is_executing
        if self._known is None:
            self._foresee()
        elif executing == self._executing:
            return
        elif self._asked or self._done:
            self._done = set()
            self._due, self._prepared, self._asked = list(self._asked), self._asked, []
            self._failed, self._together = set(), True
            self.renew()
        # Else nobody was told anything yet: what is there, or on its way, is for this phase.
        self._executing = executing
        self._window = None

    def _foresee(self) -> None:
        self._known = foreseen.load(self._file) if self._file else []
        self._due = list(self._known)

    def save(self) -> None:
        """Keep what this run asked for, when it came to its end on this host.

        Raises:
            OSError: it cannot be written.
        """
        facts = self._asked or self._prepared
        state, host = self._host.state, self._host
        cut_off = self._executing and (
            state.get_results_for_host(host).ops < state.get_meta_for_host(host).ops
        )
        if self._file and facts and facts != self._known and not cut_off:
            foreseen.save(self._file, facts)


_END = object()


def _parts(read: ReadCommand, output: CommandOutput) -> dict[str, CommandOutput]:
    """Return what each of its commands says; none where the output has not all of them."""
    if read.outputs is None:
        return {read.commands[0]: output}
    try:
        parts = dict(zip(read.commands, read.outputs(output.stdout_lines), strict=True))
    except foreseen.OTHER_ARGUMENTS:
        return {}
    return {
        command: CommandOutput([OutputLine("stdout", line) for line in lines])
        for command, lines in parts.items()
    }


def _close(generator: Iterator[Any]) -> None:
    if isinstance(generator, Generator):
        generator.close()


def _arguments(host: Host) -> dict[str, Any]:
    """Return what a fact of a host is executed with, unless it is asked for with more."""
    usual, _ = pop_global_arguments(host.state, host, {})
    return {name: value for name, value in usual.items() if name in CONNECTOR_ARGUMENT_KEYS}


def _usual(arguments: Mapping[str, Any]) -> str | None:
    """Return what a command is run with where a batch can be run so, else None."""
    if arguments.get("_shell_executable") != "sh" or arguments.get("_success_exit_codes") != [0]:
        return None
    given = {
        name: value for name, value in arguments.items() if value and name not in OF_NO_CONCERN
    }
    return json.dumps(given, sort_keys=True) if set(given) <= BATCHED_WITH else None
