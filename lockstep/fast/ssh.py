"""pyinfra's ssh connector, changed so that a fault fails only its own host.

If a command raises ``OSError`` or ``SSHException``, pyinfra fails the host. Any other error ends
the run on all hosts, and three faults raise no error at all: a session that hangs, a sudo that asks
for a password, and output that is not text. Here, errors of paramiko and pyinfra, hangs and sudo
prompts become an ``OSError`` with a reason, and ``Output.is_text`` marks output that is not text.
This also applies with ``LOCKSTEP_FAST=0``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import Event
from gevent.local import local
from paramiko import Channel, SSHException
from paramiko.channel import ChannelStdinFile
from paramiko.config import SSH_PORT
from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.exceptions import ConnectError, PyinfraError
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

from lockstep import fast_path, faults, unreached
from lockstep.connection import close
from lockstep.fast import limits, transport
from lockstep.fast.failures import failures_of
from lockstep.fast.reader import LONGER_HERE_S, Reader
from lockstep.fast.watch import Watch, close_unless
from lockstep.pyinfra_internals import progress, ssh_client

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

READ_WITHIN_S = 120.0
"""Seconds. A reading that takes longer counts as unreadable."""
KILL_AFTER_S = 5
"""Seconds after which timeout(1) kills a command that ignores SIGTERM."""
ENDS_WITHIN_S = 0.2
"""Seconds to wait for a lost connection to close after its sessions have closed."""
ENDED_BY_TIMEOUT = (124, 137)
"""Exit statuses of timeout(1) after it terminated (124) or killed (137) the command."""


class _Limit(local):  # type: ignore[misc]  # gevent's has no types
    within_s: float | None = None
    """Seconds that a command of this greenlet may take; None if there is no limit."""


limit = _Limit()


@contextmanager
def reading() -> Iterator[None]:
    """Limit how long the commands of this greenlet may take, on the node and on this side."""
    before, limit.within_s = limit.within_s, READ_WITHIN_S
    try:
        yield
    finally:
        limit.within_s = before


@contextmanager
def connection_errors() -> Iterator[None]:
    """Turn errors from paramiko and pyinfra into ``OSError``, which fails only this host.

    Raises:
        OSError: paramiko or pyinfra reported an error.
    """
    try:
        yield
    except (EOFError, SSHException) as error:
        raise OSError(f"connection lost: {error or type(error).__name__}") from error
    except PyinfraError as error:
        raise OSError(str(error)) from error


class SudoRefused(OSError):
    """Raised if sudo asks for a password."""


@dataclass
class Output(CommandOutput):
    """The output of a command."""

    is_text: bool = True
    """Whether standard output is UTF-8; other bytes appear as escapes such as ``\\xff``."""


class FailsAlone(SSHConnector):
    """pyinfra's connector with time limits for commands; reports all faults and never prompts."""

    watch: Watch | None = None

    @override
    def __init__(self, state: State, host: Host) -> None:
        ssh_client.never_ask()
        progress.show()
        super().__init__(state, host)
        self._failures = failures_of(state)

    @override
    def make_paramiko_kwargs(self) -> dict[str, Any]:
        arguments = super().make_paramiko_kwargs()
        if fast_path.wanted():
            arguments["transport_factory"] = transport.prompt
        return arguments

    @override
    def connect(self) -> None:
        try:
            super().connect()
        except ConnectError as error:
            cause = error.__context__ or error
            user = self.data["ssh_user"] or ""
            port = int(self.data["ssh_port"] or getattr(self.client, "port", SSH_PORT))
            said = ssh_client.banner(self.client)
            raise ConnectError(unreached.of_connecting(cause, user, port, said)) from error
        connected = self.client.get_transport() if self.client is not None else None
        if connected is not None:
            self.watch = Watch(connected)

    @override
    def run_shell_command(
        self,
        command: StringCommand,  # some facts pass a str
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        try:
            succeeded, output = self._run(command, print_output, print_input, **arguments)
        except OSError as error:
            self._failures.note(self.host, str(error))
            raise
        if not succeeded and not isinstance(arguments.get("_stdin"), Reader):
            lines = [line for line in output.stderr_lines or output.stdout_lines if line.strip()]
            self._failures.note(self.host, faults.in_short(lines))
        return succeeded, output

    def _run(
        self,
        command: StringCommand,
        print_output: bool,
        print_input: bool,
        *,
        _get_pty: bool = False,
        _timeout: float | None = None,
        _stdin: Any = None,
        _success_exit_codes: Iterable[int] | None = None,
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        within_s, changes = limit.within_s, None
        if within_s is not None:
            command = StringCommand(
                f"timeout -k {KILL_AFTER_S} {within_s:g} sh -c",
                QuoteString(command),
            )
            _timeout = within_s + LONGER_HERE_S
        elif not isinstance(_stdin, Reader):
            changes = limits.Limited(limits.Allowed(_timeout) if _timeout else limits.current())
            _timeout = changes.here_s
            shell = arguments.get("_shell_executable", "sh")
            arguments["_shell_executable"] = changes.shell(shell, has_terminal=_get_pty)
        try:
            with connection_errors():
                whole = make_unix_command_for_host(self.state, self.host, command, **arguments)
                if print_input:
                    echo(f"{self.host.print_prefix}>>> {whole}", err=True)
                status, output = self._execute(
                    whole.get_raw_value(),
                    _stdin,
                    _timeout,
                    get_pty=_get_pty,
                    print_output=print_output,
                )
        except TimeoutError as error:
            if changes is None:
                raise
            raise limits.OverLimit(changes.text(self._operation(), ended=False)) from error
        if changes is not None and changes.is_over(status):
            raise limits.OverLimit(changes.text(self._operation(), ended=True))
        if within_s is not None and status in ENDED_BY_TIMEOUT:
            raise TimeoutError(f"the command did not finish within {within_s:g} s")
        succeeded = status in (_success_exit_codes or [0])
        if not succeeded:
            _refuse_sudo_that_asks(output)
        return succeeded, output

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
            raise OSError("connection lost: it was closed before this command was sent")
        try:
            # paramiko closes standard input when its file object is no longer referenced.
            to_node, from_node, _ = client.exec_command(command, get_pty=get_pty)
            channel = from_node.channel
        except (EOFError, OSError, SSHException) as error:
            raise OSError(f"connection lost: {self._why(error)}") from error
        ended = Event()
        late = gevent.spawn(close_unless, ended, timeout_s, channel) if timeout_s else None
        output, fault = Output([]), None
        try:
            output = self._talk(channel, to_node, stdin, print_output=print_output)
        except (EOFError, OSError, SSHException) as error:
            fault = error
        finally:
            ended.set()
        if late is not None and late.get():
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        status = channel.recv_exit_status()
        connected = channel.get_transport()
        if status == -1:
            # When a connection is lost, its sessions close first, and then the connection.
            gevent.sleep(ENDS_WITHIN_S)
        if status == -1 and (connected is None or not connected.is_active()):
            raise OSError(f"connection lost: {self._why(fault)}")
        return status, output

    def _talk(
        self, channel: Channel, to_node: ChannelStdinFile, stdin: Any, *, print_output: bool
    ) -> Output:
        from_node = _Text(channel.makefile("rb"))
        shown = stdin.pass_on(from_node, channel) if isinstance(stdin, Reader) else from_node
        # Both outputs are read while standard input is written: a command may print something
        # before it has read all of its input.
        reading = gevent.spawn(
            read_output_buffers,
            shown,
            _Text(channel.makefile_stderr("rb")),
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
            # The command ended without reading all of its input; its status is the result.
        return Output(reading.get().combined_lines, is_text=from_node.is_text)

    def _operation(self) -> str:
        number = self.host.executing_op_hash
        return "the command" if number is None else ", ".join(self.state.get_op_meta(number).names)

    def _why(self, error: Exception | None) -> str:
        if self.watch is not None and self.watch.lost:
            return self.watch.lost
        return str(error or "") or "the session ended without an exit status"

    @override
    def put_file(self, *arguments: Any, **named: Any) -> bool:
        with self._copying(named), connection_errors():
            return super().put_file(*arguments, **named)

    @override
    def get_file(self, *arguments: Any, **named: Any) -> bool:
        with self._copying(named), connection_errors():
            return super().get_file(*arguments, **named)

    @contextmanager
    def _copying(self, named: dict[str, Any]) -> Iterator[None]:
        """Limit how long a file may take: sshd answers even if its sftp server hangs.

        Raises:
            OverLimit: it took too long; the connection is closed.
        """
        given = named.get("_timeout")
        limited = limits.Limited(limits.Allowed(given) if given else limits.current())
        late = gevent.Timeout(limited.here_s)
        try:
            with late:
                yield
        except gevent.Timeout as timeout:
            if timeout is not late:
                raise
            close(self.host)
            error = limits.OverLimit(limited.file_text(self._operation()))
            self._failures.note(self.host, str(error))
            raise error from timeout


class _Text(Iterable[str]):
    """Decodes lines. Escapes bytes that are not UTF-8 (``\\xff``); ``is_text`` is then False."""

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


def _refuse_sudo_that_asks(output: CommandOutput) -> None:
    """Fail if sudo asks for a password: pyinfra would prompt for it, and all hosts would wait.

    Raises:
        SudoRefused: sudo asks for a password.
    """
    for line in output.output_lines:
        if line.strip() in SUDO_PASSWORD_REQUIRED_LINES:
            raise SudoRefused(faults.of_output([line]) or f"sudo refused: {line.strip()}")
