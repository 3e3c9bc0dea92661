"""A reading that a host is at while the run goes on: on this side the roles are imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gevent import spawn, wait
from gevent.event import Event
from paramiko import SSHException
from pyinfra.api.exceptions import PyinfraError
from typing_extensions import override


class Script(list[str]):
    """Text for the standard input of a command, that knows when it was sent."""

    def __init__(self, text: str) -> None:
        """Take the text; pyinfra sends what a list gives, one after the other."""
        super().__init__([text])
        self.sent = Event()

    @override
    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        self.sent.set()


class Early:
    """One execution that was begun before somebody needs what it says."""

    def __init__(self, text: str, read: Callable[[Script], None]) -> None:
        """Begin, and return when the script was sent: from then on only the host has to do.

        Args:
            text: of the script.
            read: executes it and keeps what it says.
        """
        script = Script(text)
        self._reading = spawn(_unless_broken, read, script)
        wait([script.sent, self._reading], count=1)

    def arrive(self) -> None:
        """Wait for the end."""
        self._reading.join()


def _unless_broken(read: Callable[[Script], None], script: Script) -> None:
    try:
        read(script)
    except (OSError, EOFError, SSHException, PyinfraError):
        return  # the fact is then read as usual, with its own error
