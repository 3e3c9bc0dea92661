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
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

from gevent import spawn
from pyinfra.api import StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.api.state import StateStage
from pyinfra.connectors.util import CommandOutput, OutputLine
from typing_extensions import override

from lockstep.facts.reading import Execute, Part
from lockstep.fast import batch, foreseen, read
from lockstep.fast.early import Early, Script
from lockstep.fast.foreseen import Asked, ReadCommand
from lockstep.fast.readings import MOST_AGE_S as MOST_AGE_S
from lockstep.fast.readings import Held, Key, Readings, Turn, usual
from lockstep.fast.record import Record

if TYPE_CHECKING:
    from pyinfra.api.host import Host

SLOW_S = 10.0
"""A batch that took longer has a fact that holds up all others: no further one is made."""
T = TypeVar("T")


class Memory(Readings):
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
        super().__init__(host, execute, ahead)
        self._file = file
        self._get_fact = read.strict_where_asked(host, host.get_fact)
        self._known: list[Asked] | None = None
        self._due: list[Asked] = []
        self._failed: set[Key] = set()
        """Not read ahead again; when they are asked for they may be answered."""
        self._together = True
        """One command may read many facts of a kind."""
        self._prepared: list[Asked] = []
        self._asked: list[Asked] = []
        self._executing = False
        self.changed = False
        """This run may have changed the host."""

    # -- facts

    def begin(self) -> None:
        """Have read what is foreseen, for whom asks first; the host was just connected."""
        if self._known is None and self._file is not None:
            self._foresee()
            with_what = usual(_arguments(self._host))
            if with_what is not None:
                self._read(self._ahead(with_what), with_what, early=True)
        wanted = self._ahead_of_all()
        if wanted and self._batched is None:
            self._takes = spawn(self._take_if_possible, wanted)

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
    @override
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
            self.forget()  # its effect is not known
            return None
        with_what = usual(arguments)
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

    @override
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
        reads = foreseen.read_commands(wanted, together=self._together)
        if reads and self._window is None and self._batched is None and self._record.is_empty:
            reads += self._batch(frozenset(), with_what)
        return reads

    @override
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
                    self._together = False  # one of them fails, and it is not known which
                elif not parts:
                    self._failed.add((one.commands[0], with_what))
            if time.monotonic() - now > SLOW_S:
                self._due = []

        if early:
            self._early = Early(script, read)
        else:
            read(script)

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
            # The operation asks next, and gets the reason.
            with suppress(*read.FAULTS):
                self._read([foreseen.alone(command) for command in commands], with_what)

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
        self._record, self._takes, self._batched = Record(), None, None

    # -- what is foreseen

    @override
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
