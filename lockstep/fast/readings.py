"""What was read of a host by readings, for as long as nothing changes it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gevent import Greenlet
from gevent.local import local
from pyinfra.connectors.util import CommandOutput

from lockstep.facts.reading import (
    COMMAND,
    Execute,
    Part,
    Question,
    Taken,
    Unreadable,
    connector_arguments,
    program,
    take,
)
from lockstep.fast import foreseen
from lockstep.fast.early import Early
from lockstep.fast.foreseen import ReadCommand
from lockstep.fast.record import Record
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.ship import answered

if TYPE_CHECKING:
    from pyinfra.api.host import Host

MOST_AGE_S = 30.0
"""Who waits longer, for a slow operation of another host, reads again."""
BATCHED_WITH = {"_sudo", "_sudo_user", "_use_sudo_login", "_preserve_sudo_env"}
"""Arguments that a batch can have; with others (``_env``, ``_timeout``) a fact is read alone."""

OF_NO_CONCERN = {
    *("_shell_executable", "_success_exit_codes"),
    *("_retries", "_retry_delay", "_retry_until", "_temp_dir"),  # of operations
}

T = TypeVar("T")
Key = tuple[str, str]
"""Command line, and what it is run with."""


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
    """Runs a command of Lockstep, or one that it passes on."""
    turn: Turn | None = None
    """Decides what an operation does."""


class Readings:
    """Answers questions from the record of one host; facts are read beside it."""

    def __init__(self, host: Host, execute: Execute, ahead: Callable[[], frozenset[Part]]) -> None:
        """Start with nothing read.

        Args:
            host: of the record.
            execute: runs a command on it.
            ahead: says what the roles of this host will ask for.
        """
        self._host = host
        self._execute = execute
        self._ahead_of_all = ahead
        self._record = Record()
        self._done: set[Part] = set()
        """What was asked for in this phase."""
        self._held: dict[Key, Held] = {}
        self._window: int | None = None
        """How many facts are read at once; None: all."""
        self._early: Early | None = None
        self._batched: tuple[str, frozenset[Part], str] | None = None
        """Readings that are read together with facts, as a command of theirs."""
        self._takes: Greenlet[[frozenset[Part]], None] | None = None
        self._doing = Doing()

    def _begin_phase(self) -> None:
        raise NotImplementedError

    @property
    def _may_answer(self) -> bool:
        raise NotImplementedError

    def _ahead(self, with_what: str) -> list[ReadCommand]:
        raise NotImplementedError

    def _read(self, reads: list[ReadCommand], with_what: str) -> None:
        raise NotImplementedError

    def ask(self, question: Question[T]) -> T:
        """Do as ``lockstep.facts.reading.ask``: of what was read, where that is good still."""
        self._begin_phase()
        arguments, turn = connector_arguments(self._host), self._doing.turn
        wanted = question.parts()
        with_what = usual(arguments)
        if not self._may_answer or with_what is None:
            return question.answer(Taken(self._take(wanted, arguments)))
        if self._takes is not None:
            self._takes.join()
        self._done |= wanted
        if self._early is not None:
            self._early.arrive()
        self._take_over()
        since = time.monotonic() - MOST_AGE_S
        if not self._record.has(wanted, with_what, since):
            if self._record.is_old(since):
                self._record = Record()
            facts = self._ahead(with_what)
            if facts and self._batched is None:
                self._read([*self._batch(wanted, with_what), *facts], with_what)
                self._take_over()
        record = self._record
        if not record.has(wanted, with_what, since):
            due = self._ahead_of_all() - self._done
            record = self._keep(wanted | due, with_what, arguments)
        if turn is not None:
            turn.parts |= wanted
            turn.oldest = min(turn.oldest, record.oldest(wanted))
        value = question.answer(Taken(record.readings))
        if turn is not None:
            turn.told.append((question.name, value))
        return value

    def _batch(self, wanted: frozenset[Part], with_what: str) -> list[ReadCommand]:
        """Return what takes the readings that are due, in one execution with facts."""
        wanted |= self._ahead_of_all() - self._done
        if not wanted:
            return []
        end = "END-OF-PROGRAM"
        command = f"{COMMAND} <<'{end}'\n{program(wanted)}\n{end}"
        self._batched = (command, wanted, with_what)
        return [foreseen.alone(command)]

    def _take_over(self) -> None:
        """Put into the record what was read together with facts."""
        if self._batched is None:
            return
        command, wanted, with_what = self._batched
        held, self._batched = self._held.get((command, with_what)), None
        if held is not None:
            try:
                readings = answered(held.output.stdout_lines)
            except ProbeFormatError:
                return  # they are read again alone; that says why not
            self._record.add(readings, wanted, with_what, held.at)

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
        with_what = usual(arguments)
        if with_what is None:
            return
        try:
            self._keep(wanted, with_what, arguments)
        except Unreadable:
            return  # the first question reads it again, and hears why not

    def _take_again(self, wanted: frozenset[Part]) -> None:
        arguments = connector_arguments(self._host)
        with_what = usual(arguments)
        if with_what is not None:
            # The operation asks next, and gets the reason.
            with suppress(Unreadable):
                self._keep(wanted, with_what, arguments)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Let commands pass that pyinfra needs for another one (sudo's password)."""
        before, self._doing.busy = self._doing.busy, True
        try:
            yield
        finally:
            self._doing.busy = before


def usual(arguments: Mapping[str, Any]) -> str | None:
    """Return what a command is run with where a batch can be run so, else None."""
    if arguments.get("_shell_executable") != "sh" or arguments.get("_success_exit_codes") != [0]:
        return None
    given = {
        name: value for name, value in arguments.items() if value and name not in OF_NO_CONCERN
    }
    return json.dumps(given, sort_keys=True) if set(given) <= BATCHED_WITH else None
