"""pyinfra's ssh connector, with failures that stay with their host.

pyinfra catches ``OSError`` and ``SSHException`` of a command and fails its host. Anything else ends
the run of all hosts, and three faults raise nothing at all: a session that hangs, output that is
not text, and a sudo that asks for a password. Here each of them is an ``OSError`` with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import gevent
from gevent.event import Event
from gevent.local import local
from paramiko import Channel, SSHException
from paramiko.channel import ChannelStdinFile
from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.output import echo
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.util import (
    SUDO_PASSWORD_REQUIRED_LINES,
    CommandOutput,
    make_unix_command_for_host,
    read_output_buffers,
    write_stdin,
)
from typing_extensions import override

from lockstep.fast.watch import Watch, arrives

READ_WITHIN_S = 120.0
"""A reading that takes longer counts as unreadable; the slowest have three ``timeout 30``."""
KILL_AFTER_S = 5
"""timeout(1) kills a command that ignores SIGTERM after this time."""
LONGER_HERE_S = 15.0
"""The node ends a reading itself where it can: then it says so. Here it is given up later."""
ENDED_BY_TIMEOUT = (124, 137)
"""timeout(1): it ended the command, or killed it."""


class _Limit(local):  # type: ignore[misc]  # gevent's has no types
    within_s: float | None = None


_limit = _Limit()


@contextmanager
def reading(within_s: float | None = None) -> Iterator[None]:
    """Limit the commands that this greenlet runs, on the node and here: they only read."""
    before = _limit.within_s
    _limit.within_s = READ_WITHIN_S if within_s is None else within_s
    try:
        yield
    finally:
        _limit.within_s = before


@contextmanager
def connection_errors() -> Iterator[None]:
    """Turn what a connection raises into ``OSError``, which fails one host.

    Raises:
        OSError: with the reason.
    """
    try:
        yield
    except (EOFError, SSHException) as error:
        raise OSError(f"connection lost: {error or type(error).__name__}") from error
    except PyinfraError as error:
        raise OSError(str(error)) from error


class SudoRefused(OSError):
    """sudo wants a password."""


@dataclass
class Output(CommandOutput):
    """The output of a command."""

    is_text: bool = True
    """Standard output is UTF-8; where it is not, the bytes are shown as ``\\xff``."""


class FailsAlone(SSHConnector):
    """Runs commands as pyinfra does, but never waits for ever, never asks, and loses no error."""

    watch: Watch | None = None

    @override
    def connect(self) -> None:
        super().connect()
        transport = self.client.get_transport() if self.client is not None else None
        if transport is not None:
            self.watch = Watch(transport)

    @override
    def run_shell_command(
        self,
        command: StringCommand,  # text, where a fact says it so
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        wants_terminal = arguments.pop("_get_pty", False)
        timeout_s = arguments.pop("_timeout", None)
        stdin = arguments.pop("_stdin", None)
        fine = arguments.pop("_success_exit_codes", None) or [0]
        within_s = _limit.within_s
        if within_s is not None:
            command = StringCommand(
                f"timeout -k {KILL_AFTER_S} {within_s:g} sh -c",
                QuoteString(command),
            )
            timeout_s = within_s + LONGER_HERE_S
        with connection_errors():
            whole = make_unix_command_for_host(self.state, self.host, command, **arguments)
            if print_input:
                echo(f"{self.host.print_prefix}>>> {whole}", err=True)
            status, output = self._execute(
                whole.get_raw_value(),
                stdin,
                timeout_s,
                get_pty=wants_terminal,
                print_output=print_output,
            )
        if within_s is not None and status in ENDED_BY_TIMEOUT:
            raise TimeoutError(f"the node did not finish it within {within_s:g} s")
        if status not in fine:
            _refuse_sudo_that_asks(output)
        return status in fine, output

    def _execute(
        self,
        command: str,
        stdin: Any,
        timeout_s: float | None,
        *,
        get_pty: bool,
        print_output: bool,
    ) -> tuple[int, Output]:
        client = self.client
        if client is None or client.get_transport() is None:
            raise OSError("connection lost: it was closed")
        try:
            # Standard input is kept: paramiko ends it when nothing refers to its file any more.
            to_node, from_node, _ = client.exec_command(command, get_pty=get_pty)
            channel = from_node.channel
        except (EOFError, OSError, SSHException) as error:
            raise OSError(f"connection lost: {self._why(error)}") from error
        ended, limit = Event(), None
        if timeout_s:
            limit = gevent.spawn(_close_unless, ended, timeout_s, channel)
        try:
            output = self._talk(channel, to_node, stdin, print_output=print_output)
        except (EOFError, OSError, SSHException) as error:
            output, why = Output([]), self._why(error)
        else:
            why = self._why(None)
        finally:
            ended.set()
        if limit is not None and limit.get():
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        status = channel.recv_exit_status()
        transport = channel.get_transport()
        if status == -1 and (transport is None or not transport.is_active()):
            raise OSError(f"connection lost: {why}")
        return status, output

    def _talk(
        self, channel: Channel, to_node: ChannelStdinFile, stdin: Any, *, print_output: bool
    ) -> Output:
        read = [_Text(channel.makefile("rb")), _Text(channel.makefile_stderr("rb"))]
        # Both are read while standard input is written: a command may answer before it has all.
        reading = gevent.spawn(
            read_output_buffers,
            *read,
            timeout=None,
            print_output=print_output,
            print_prefix=self.host.print_prefix,
        )
        try:
            if stdin:
                write_stdin(stdin, to_node)  # type: ignore[no-untyped-call]  # pyinfra's
            to_node.close()
        except OSError:
            if not channel.closed:
                raise
            # The command ended without reading all of it: its status says how.
        return Output(reading.get().combined_lines, is_text=read[0].is_text)

    def _why(self, error: Exception | None) -> str:
        if self.watch is not None and self.watch.lost:
            return self.watch.lost
        return str(error or "") or "the session ended without an exit status"

    @override
    def put_file(self, *arguments: Any, **named: Any) -> bool:
        with connection_errors():
            return super().put_file(*arguments, **named)

    @override
    def get_file(self, *arguments: Any, **named: Any) -> bool:
        with connection_errors():
            return super().get_file(*arguments, **named)


class _Text(Iterable[str]):
    """Lines of bytes as text. What is not UTF-8 is shown, and noted."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self.is_text = True

    @override
    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            try:
                yield line.decode()
            except UnicodeDecodeError:
                self.is_text = False
                yield line.decode(errors="backslashreplace")


def _close_unless(ended: Event, within_s: float, channel: Channel) -> bool:
    """Close a session whose command does not end in time; say so."""
    if arrives(ended, within_s):
        return False
    with suppress(OSError, EOFError, SSHException):
        channel.close()
    return True


def _refuse_sudo_that_asks(output: CommandOutput) -> None:
    """Fail where sudo wants a password: pyinfra would ask a person for it, and all hosts wait.

    Raises:
        SudoRefused: it does.
    """
    for line in output.output_lines:
        if line.strip() in SUDO_PASSWORD_REQUIRED_LINES:
            raise SudoRefused(
                f"sudo refused: {line.strip()}. Next: allow this login sudo without a password "
                "(NOPASSWD in sudoers), or run pyinfra with --same-sudo-password"
            )
