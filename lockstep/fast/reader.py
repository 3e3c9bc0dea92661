"""Takes readings with one process per host and run (``node.readers.selected``).

The program and the requests go through standard input, so they appear in no process list or log. A
request can wait for a command that changes the host: the command's shell then signals the process,
which starts to take the readings before this side knows that the command has ended.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from gevent import spawn
from gevent.event import AsyncResult, Event
from gevent.queue import SimpleQueue
from paramiko import Channel
from pyinfra.api import Host, QuoteString, StringCommand
from typing_extensions import override

from lockstep import faults
from lockstep.facts.reading import (
    FAULTS,
    LIMIT_S,
    THE_NODE,
    Execute,
    failed,
    names,
    request,
)
from lockstep.fast.watch import arrives, close
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.ship import (
    BEGIN,
    END,
    MARKER,
    OVER,
    READS,
    STARTED,
    answered,
    modules_for,
    reading_program,
)
from lockstep.question import Part, Unreadable

LONGER_HERE_S = 15.0
"""Extra seconds in this side's time limit, so that the node stops a slow reading first."""


class _Command(StringCommand):
    """A command that pyinfra prints as the operation gave it, without the signal."""

    def __init__(self, shown: StringCommand, *bits: str | QuoteString) -> None:
        super().__init__(*bits)
        self._shown = shown

    @override
    def get_masked_value(self) -> str:
        return self._shown.get_masked_value()


class Answer(AsyncResult):  # type: ignore[misc]  # gevent's has no types
    """The future result of a request; ``get`` waits for it, and may raise ``Unreadable``."""

    begun = False
    """Whether the process may have started to take the readings, so that the time limit applies."""
    at = math.inf
    """Approximate start time of the readings (``time.monotonic``); infinite until known."""


class Reader(list[str]):
    """The reading process on a host. As a list, it is the standard input of that process."""

    def __init__(self, host: Host, execute: Execute, arguments: Mapping[str, Any]) -> None:
        """Create the object; ``start`` starts the process.

        Args:
            host: the host.
            execute: runs a command on the host, without a time limit.
            arguments: pyinfra's arguments for the process.
        """
        super().__init__()
        self._host = host
        self._execute = execute
        self._arguments = arguments
        self._modules: frozenset[str] = frozenset()
        self._requests: SimpleQueue[str] = SimpleQueue()
        self._awaited: deque[Answer] = deque()
        """The answers to requests that are still unanswered, in order."""
        self._channel: Channel | None = None
        self._said: list[str] = []
        """The lines that the process printed for the current request."""
        self._process: tuple[str, str] | None = None
        """The ID of the process and its start time; None until the process has printed them."""
        self.sent = Event()
        """Set when the first request has been sent."""
        self.is_over = False
        """Whether the process has ended or been told to end."""
        self.hangs = False
        """Whether an answer did not come within its limit."""
        self.started_at = time.monotonic()

    # -- requests

    def start(self, wanted: Collection[Part], later: Collection[Part] = ()) -> Answer:
        """Start the process and send its first request.

        Args:
            wanted: the parts to read.
            later: parts that later requests may ask for.
        """
        self._modules = modules_for(names({*wanted, *later}))
        self.append(reading_program(self._modules))
        answer = self.ask(wanted)
        spawn(self._run)
        return answer

    def can_answer(self, wanted: Collection[Part]) -> bool:
        """Return whether the process is idle and has the readers for these parts."""
        idle = not self.is_over and not self._awaited
        return idle and modules_for(names(wanted)) <= self._modules

    def ask(self, wanted: Collection[Part], *, waits: bool = False) -> Answer:
        """Send a request.

        Args:
            wanted: the parts to read.
            waits: whether the process first waits for ``begin`` or for the signal of a command.
        """
        answer = Answer()
        self._awaited.append(answer)
        self._requests.put(request(wanted, waits=waits))
        if not waits:
            self._limit(answer)
        return answer

    def begin(self, answer: Answer) -> None:
        """Tell the process to take the readings for a request that waits."""
        self._requests.put(BEGIN)  # unless a signal told it already
        self._limit(answer)

    def settle(self) -> None:
        """Wait until the process is not taking any readings."""
        for answer in [one for one in self._awaited if one.begun]:
            answer.wait()

    def end(self) -> None:
        """End the process."""
        self.is_over = True
        self._requests.put("")

    def before(self, command: StringCommand) -> StringCommand:
        """Return a command that runs the given one and, if that succeeds, signals the process."""
        if self._process is None:
            return command
        number, started_at = self._process
        return _Command(
            command,
            # 2>/dev/null hides the shell's message about a killed command.
            "exec 3>&2 2>/dev/null; ( exec sh -c",
            # In its own shell: an exit or a syntax error ends only the command.
            QuoteString(command),
            # Another process may have got its number, but not its start time, field 22 (proc(5)).
            f"2>&3 3>&- ); s=$?; [ $s = 0 ] && read -r n < /proc/{number}/stat && set -- $n && "
            f"""[ "${{22}}" = {started_at} ] && kill -USR1 {number}; exit $s""",
        )

    # -- the session

    def _run(self) -> None:
        state = self._host.state
        fault = failed(())
        try:
            _, output = self._execute(
                StringCommand(READS),
                **{**self._arguments, "_stdin": self},
                print_output=state.print_fact_output,
                print_input=state.print_fact_input,
            )
            fault = failed(output.stderr_lines or self._said)
        except FAULTS as error:
            fault = Unreadable(THE_NODE, faults.of_error(error))
        finally:
            self.is_over = True
            while self._awaited:
                self._awaited.popleft().set_exception(fault)

    def _limit(self, answer: Answer) -> None:
        answer.begun, answer.at = True, min(answer.at, time.monotonic())
        if self._channel is not None:  # else the limit begins with the session
            spawn(self._close_unless, answer, self._channel)

    def _close_unless(self, answer: Answer, channel: Channel) -> None:
        if not arrives(answer, LIMIT_S + LONGER_HERE_S):
            self.hangs = True
            close(channel)

    @override
    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        while line := self._requests.get():
            yield line
            self.sent.set()

    def pass_on(self, lines: Iterable[str], channel: Channel) -> Iterator[str]:
        """Complete the answers with the output of the process; yield the lines that pyinfra prints.

        Args:
            lines: standard output of the process.
            channel: the ssh session; it is closed if a reading takes too long.
        """
        self._channel = channel
        for answer in self._awaited:
            if answer.begun:
                self._limit(answer)
        try:
            for line in lines:
                if line.strip():
                    self._note(line.strip())
                    if self._host.state.print_fact_output:
                        yield line
        finally:
            self.end()

    def _note(self, line: str) -> None:
        if line.startswith(STARTED):
            number, _, started_at = line[len(STARTED) :].strip().partition(" ")
            self._process = number, started_at
        elif line != OVER or not self._awaited:
            self._said.append(line)
            if line == MARKER and self._awaited:
                # A session may end long after its command, whose end was the signal.
                self._awaited[0].at = min(self._awaited[0].at, time.monotonic())
        else:
            said, self._said = self._said, []
            answer = self._awaited.popleft()
            try:
                answer.set(answered(said))
            except ProbeFormatError as error:
                cause = failed([line for line in said if line != MARKER])
                answer.set_exception(Unreadable(THE_NODE, str(error)) if END in said else cause)
