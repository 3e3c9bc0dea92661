"""Runs a command that changes a node and takes the next readings, in one ssh session.

The reading program is the first line of standard input, so it appears in no process list or log;
the command's own input follows. A token separates the two outputs. Python starts while the command
runs, and takes the readings when the command has ended.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from secrets import token_hex
from typing import Any

from gevent import spawn
from gevent.event import Event
from paramiko import Channel
from pyinfra.api import QuoteString, StringCommand
from typing_extensions import override

from lockstep.facts.reading import LIMIT_S, program
from lockstep.fast.watch import close_unless
from lockstep.probe.ship import PYTHON, one_line
from lockstep.question import Part

LONGER_HERE_S = 15.0
"""Extra seconds in this side's time limit, so that the node stops a slow reading first."""


class _Command(StringCommand):
    """A command that pyinfra prints as the operation gave it, without the reading."""

    def __init__(self, shown: StringCommand, *bits: str | QuoteString) -> None:
        super().__init__(*bits)
        self._shown = shown

    @override
    def get_masked_value(self) -> str:
        return self._shown.get_masked_value()


class Along(list[str]):
    """Standard input for a command and the reading that follows; also separates their outputs."""

    def __init__(self, wanted: frozenset[Part], of_command: Any) -> None:
        """Compose the input: the reading program, then the command's own input.

        Args:
            wanted: the parts to read.
            of_command: the command's own input, in any form that pyinfra accepts.
        """
        if hasattr(of_command, "readlines"):
            of_command = of_command.readlines()
        if not isinstance(of_command, list | tuple):
            of_command = [of_command] if of_command else []
        super().__init__([one_line(program(wanted, waits=True)), *of_command])
        self.status: int | None = None
        """Exit status of the command; None until the command has ended."""
        self.ended_at = 0.0
        self.said: list[str] = []
        """Lines that the command printed."""
        self.reading: list[str] = []
        """Lines that the reading program printed."""
        self._token = token_hex()
        self._is_over = Event()

    def command(self, command: StringCommand) -> StringCommand:
        """Return a command that runs the given command and also takes the readings."""
        return _Command(
            command,
            # The builtin read consumes exactly one line of standard input. 2>/dev/null hides the
            # shell's message about a killed command, and errors of the reading.
            "IFS= read -r lockstep_reads; exec 3>&2 4<&0 5>&1 2>/dev/null; "
            # In the background: the command must not wait for Python, and SIGPIPE must not end it.
            """{ printf '%s\\n' "$lockstep_reads" & ( exec sh -c""",
            # In its own shell: an exit or a syntax error ends only the command.
            QuoteString(command),
            "<&4 >&5 2>&3 3>&- 4<&- 5>&- ); s=$?; "
            f"printf '%s %s\\n' {self._token} $s >&5; [ $s = 0 ] && wait && echo; }} | "
            f"{PYTHON} -c 'import sys;exec(sys.stdin.readline())' 3>&- 4<&- 5>&-",
        )

    def pass_on(self, lines: Iterable[str], channel: Channel) -> Iterator[str]:
        """Yield the lines that the command printed, and keep those of the reading.

        Args:
            lines: standard output, first of the command and then of the reading.
            channel: the ssh session; it is closed if the reading takes too long.
        """
        end = re.compile(rf"(.*){self._token} (\d+)\n?")
        try:
            for line in lines:
                if self.status is not None:
                    self.reading.append(line)
                    continue
                ended = end.fullmatch(line)
                if ended is not None:
                    self.status, self.ended_at = int(ended[2]), time.monotonic()
                    reads_s = 0 if self.status else LIMIT_S
                    spawn(close_unless, self._is_over, reads_s + LONGER_HERE_S, channel)
                    line = ended[1]  # the command's last line, if it has no line feed
                if ended is None or line:
                    self.said.append(line.rstrip("\n"))
                    yield line
        finally:
            self._is_over.set()
