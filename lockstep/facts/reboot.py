"""A node before, during and after its reboot: its boot, and the reason that holds it in Slurm.

pyinfra's own connection serves all of it, but every question has an end: a node may go away in
the middle of a sentence, and paramiko would wait an hour for it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gevent import Timeout
from paramiko import SSHException
from pyinfra.api import FactBase, FactProcessError, Host, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.util import CommandOutput, clear_askpass_cache
from typing_extensions import override

from lockstep.connection import close
from lockstep.facts.reading import Question, Taken, Unreadable, take

T = TypeVar("T")

MARKER = "/run/reboot-required"
"""Left by packages of Debian and Ubuntu that count on a reboot; gone with the boot."""
IN_VAIN = "/run/lockstep/rebooted-in-vain"
"""Holds the reasons that this boot was made for and that it did not end; gone with the boot."""
CONNECT_S = 20.0
COMMAND_S = 75.0
"""Longer than the two ``timeout 30`` that one of our commands may hold."""


@dataclass(frozen=True)
class BootState:
    """This boot of a node."""

    boot: str
    """Differs between any two boots."""
    cmdline: tuple[str, ...]
    marker: str | None
    """Packages that left ``MARKER``; None: there is none."""


class Boot(FactBase[BootState]):
    """Returns which boot this is, with what arguments, and whether packages want another.

    A container shares its host's boot_id: PID 1's start (proc(5), field 22 of stat) tells its
    boots apart.
    """

    @override
    def command(self) -> str:
        return (
            'echo "boot $(cat /proc/sys/kernel/random/boot_id) '
            "$(sed 's/.*) //' /proc/1/stat | cut -d' ' -f20)\"; "
            'echo "cmdline $(cat /proc/cmdline)"; '
            f"if [ -e {MARKER} ]; then "
            f'echo "marker $(sort -u {MARKER}.pkgs 2>/dev/null | paste -sd" ")"; fi'
        )

    @override
    def process(self, output: Iterable[str]) -> BootState:
        said = {key: value for key, _, value in (line.partition(" ") for line in output)}
        if len(said.get("boot", "").split()) != 2 or "cmdline" not in said:
            raise FactProcessError(f"boot, unexpected answer: {said}")
        marker = said.get("marker")
        return BootState(
            said["boot"],
            tuple(said["cmdline"].split()),
            None if marker is None else marker.strip(),
        )


class RebootedInVain(FactBase[tuple[str, ...]]):
    """Returns the reasons for a reboot that this boot did not end."""

    @override
    def command(self) -> str:
        return f"if [ -e {IN_VAIN} ]; then cat {IN_VAIN}; fi; echo end"

    @override
    def process(self, output: Iterable[str]) -> tuple[str, ...]:
        return tuple(output)[:-1]


@dataclass(frozen=True)
class HoldState:
    """Whether Slurm keeps jobs off a node, for which reason, and the jobs that it still has."""

    states: frozenset[str] = frozenset()
    """Base state and flags; empty: the controller did not answer."""
    reason: str = ""
    jobs: tuple[str, ...] | None = None
    """Jobs with processes or an allocation there; None: the controller did not answer."""
    slurmd_started: str = ""
    """Slurm's own words, from slurmd's last registration: only ever compared."""


class Hold(FactBase[HoldState]):
    """Returns a node's state in Slurm and its jobs; scontrol(1), squeue(1)."""

    @override
    def command(self, node: str) -> str:
        name = shlex.quote(node)
        return (
            f"timeout 30 scontrol -o show node {name} 2>/dev/null; "
            f"if jobs=$(timeout 30 squeue -a -h -w {name} -o %i 2>/dev/null); "
            "then echo jobs $jobs; fi; echo end"
        )

    @override
    def process(self, output: Iterable[str]) -> HoldState:
        lines = list(output)
        node = next((line for line in lines if line.startswith("NodeName=")), "")
        jobs = next((line.split()[1:] for line in lines if line.split()[:1] == ["jobs"]), None)
        state = re.search(r" State=(\S+)", node)
        if state is None:
            return HoldState(jobs=None if jobs is None else tuple(jobs))
        words = state.group(1)
        states = set(words.rstrip("*").split("+"))
        if words.endswith("*"):  # the older spelling of NOT_RESPONDING
            states.add("NOT_RESPONDING")
        reason = re.search(r" Reason=(.*?)(?: \[\w+@|$)", node)
        started = re.search(r" SlurmdStartTime=(\S+)", node)
        return HoldState(
            frozenset(states),
            reason.group(1) if reason else "",
            None if jobs is None else tuple(jobs),
            started.group(1) if started else "",
        )


class Unanswered(Exception):
    """A node did not answer, or not sensibly; the text says how."""


class Conversation:
    """Questions to one host over pyinfra's connection, each with an end.

    After a question that was not answered the connection is given up, and the next one makes a
    new one: nothing waits for a session that died with its node.
    """

    def __init__(self, host: Host, arguments: Mapping[str, Any]) -> None:
        """Take the host, and pyinfra's arguments for its commands (``_sudo``)."""
        self._host = host
        self._arguments = dict(arguments)

    def say(
        self, command: str, within_s: float = COMMAND_S, **further: Any
    ) -> tuple[bool, CommandOutput]:
        """Run a command; return whether it succeeded, and its output.

        Args:
            command: for the host's shell.
            within_s: how long it may take.
            further: pyinfra's arguments for this command alone (``_stdin``).

        Raises:
            Unanswered: no connection, or it broke, or the time ran out.
        """
        host = self._host
        if not host.connected:
            self.connect()
        limit = Timeout(within_s)
        try:
            with limit:
                return host.run_shell_command(
                    StringCommand(command),
                    print_output=host.state.print_output,
                    print_input=host.state.print_input,
                    **{**self._arguments, **further},
                )
        except Timeout as timeout:
            self.close()
            if timeout is not limit:
                raise
            raise Unanswered(f"no answer within {within_s:.0f} s") from timeout
        except (OSError, SSHException, EOFError, PyinfraError) as error:
            self.close()
            raise Unanswered(f"ssh: {type(error).__name__}: {error}") from error

    def ask(self, question: Question[T]) -> T:
        """Ask for readings; nothing of them is kept.

        Raises:
            Unanswered: as ``say``; or the readings could not be taken.
        """

        def execute(command: StringCommand, _stdin: str, **_: Any) -> tuple[bool, CommandOutput]:
            return self.say(command.get_raw_value(), _stdin=_stdin)

        try:
            return question.answer(Taken(take(self._host, execute, question.parts(), {})))
        except Unreadable as error:
            raise Unanswered(str(error)) from error

    def read(self, kind: Any, **arguments: object) -> Any:
        """Read a fact, or ask the question that a function makes; a failure is for the caller.

        Raises:
            Unanswered: as ``say``; or the answer is not what the fact reads.
        """
        if not isinstance(kind, type):
            return self.ask(kind(**arguments))
        fact: FactBase[Any] = kind()
        ok, output = self.say(str(fact.command(**arguments)))
        if not ok or not output.stdout_lines:
            said = (output.stderr_lines or ["no message"])[-1]
            raise Unanswered(f"{kind.__name__}: {said.strip()[:200]}")
        try:
            return fact.process(output.stdout_lines)
        except FactProcessError as error:
            raise Unanswered(str(error)) from error

    def connect(self, within_s: float = CONNECT_S) -> None:
        """Make a new connection, as pyinfra makes it: with the host key checked.

        Raises:
            Unanswered: with what ssh said.
        """
        self.close()
        limit = Timeout(within_s)
        try:
            with limit:
                self._host.connect(show_errors=False, raise_exceptions=True)
        except Timeout as timeout:
            if timeout is not limit:
                raise
            raise Unanswered(f"no ssh connection within {within_s:.0f} s") from timeout
        except (OSError, SSHException, EOFError, PyinfraError) as error:
            raise Unanswered(f"ssh: {error}") from error

    def close(self) -> None:
        """Give the connection up; pyinfra's own disconnect leaves its transport open."""
        host = self._host
        # Files that pyinfra left there for sudo's password are gone with the boot; asking the
        # dead session to remove them would hang.
        clear_askpass_cache(host)
        close(host)
        host.disconnect()
