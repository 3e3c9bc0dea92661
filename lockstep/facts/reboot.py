"""Questions about a node before and after its reboot: its current boot, and its state in Slurm.

Each question uses pyinfra's own connection and has a time limit. Without one, paramiko would wait
for an hour if a node went down before its answer was complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gevent import Timeout
from pyinfra.api import Host, StringCommand
from pyinfra.connectors.util import CommandOutput, clear_askpass_cache

from lockstep import faults
from lockstep.connection import close
from lockstep.facts.reading import FAULTS, take
from lockstep.node.readers.reading import ABSENT
from lockstep.node.readers.system import IN_VAIN as IN_VAIN
from lockstep.question import Question, Taken, Unreadable, question

T = TypeVar("T")

CONNECT_S = 20.0
COMMAND_S = 75.0
"""Time limit in seconds, longer than any command may take (``timeout 30`` twice, ``LIMIT_S``)."""


@dataclass(frozen=True)
class BootState:
    """The current boot of a node."""

    boot: str
    """Unique identifier of this boot."""
    cmdline: tuple[str, ...]
    wanted_by: tuple[str, ...] | None = None
    """Names of the packages that need a reboot, if recorded; None if no package needs a reboot."""
    in_vain: tuple[str, ...] = ()
    """Problems that the last reboot did not resolve."""


@question(
    *("boot", "os.boot_id", "os.init_started", "kernel.cmdline"),
    *("os.reboot_required", "os.rebooted_in_vain"),
)
def boot_state(taken: Taken) -> BootState:
    """Ask for the identifier and kernel arguments of this boot, and for reasons to reboot."""
    packages = taken["os.reboot_required"]
    return BootState(
        f"{taken['os.boot_id']} {taken['os.init_started']}",
        tuple(taken["kernel.cmdline"]),
        None if packages == ABSENT else tuple(packages),
        tuple(taken["os.rebooted_in_vain"]),
    )


@dataclass(frozen=True)
class HoldState:
    """The state of a node in Slurm, the reason for it, and the jobs still on the node."""

    states: frozenset[str] = frozenset()
    """Base state and flags; empty if the controller did not answer."""
    reason: str = ""
    jobs: tuple[str, ...] | None = None
    """Jobs that are running or completing on the node; None if the controller did not answer."""
    slurmd_started: str = ""
    """SlurmdStartTime as Slurm prints it; it changes when a restarted slurmd registers."""


def hold_state(node: str) -> Question[HoldState]:
    """Ask the Slurm controller for the state of a node, and for the jobs on it."""

    def answer(taken: Taken) -> HoldState:
        # None if the controller did not answer: the caller waits or stops.
        shown, listed = taken.known("slurm.node", node), taken.known("slurm.jobs", node)
        jobs = None if listed is None else tuple(listed)
        if shown is None:
            return HoldState(jobs=jobs)
        return HoldState(frozenset(shown["state"]), shown["reason"], jobs, shown["slurmd_started"])

    about = {"slurm_nodes": (node,)}
    return Question("hold in Slurm", ("slurm.node", "slurm.jobs"), answer, about)


class Unanswered(Exception):
    """Raised if a node does not answer or its answer cannot be parsed; the message says why."""


class Conversation:
    """Questions to one host over pyinfra's connection, each with a time limit.

    An unanswered question closes the connection, and the next question opens a new one, so that
    nothing waits for a session that was lost when the node went down.
    """

    def __init__(self, host: Host, arguments: Mapping[str, Any]) -> None:
        """Store the host and pyinfra's arguments for its commands (``_sudo``)."""
        self._host = host
        self._arguments = dict(arguments)

    def say(
        self, command: str, within_s: float = COMMAND_S, **further: Any
    ) -> tuple[bool, CommandOutput]:
        """Run a command; return whether it succeeded, and its output.

        Args:
            command: the command for the host's shell.
            within_s: the time limit, in seconds.
            further: pyinfra's arguments for this command only (``_stdin``).

        Raises:
            Unanswered: the connection failed or broke, or the time limit was reached.
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
        except FAULTS as error:
            self.close()
            raise Unanswered(f"ssh: {_what(error)}") from error

    def ask(self, question: Question[T]) -> T:
        """Return the answer to a question; its readings are not kept.

        Raises:
            Unanswered: as in ``say``, or the readings could not be taken.
        """

        def execute(
            command: StringCommand, _stdin: list[str], **_: Any
        ) -> tuple[bool, CommandOutput]:
            return self.say(command.get_raw_value(), _stdin=_stdin)

        try:
            return question.answer(Taken(take(self._host, execute, question.parts(), {})))
        except Unreadable as error:
            raise Unanswered(str(error)) from error

    def read(self, make: Callable[..., Question[Any]], **arguments: Any) -> Any:
        """Return the answer to the question that ``make`` creates from the arguments.

        Raises:
            Unanswered: as in ``ask``.
        """
        return self.ask(make(**arguments))

    def connect(self, within_s: float = CONNECT_S) -> None:
        """Open a new connection through pyinfra, which checks the host key.

        Raises:
            Unanswered: the connection failed, or the time limit was reached.
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
        except FAULTS as error:
            raise Unanswered(f"ssh: {_what(error)}") from error

    def close(self) -> None:
        """Close the connection; pyinfra's own disconnect leaves its transport open."""
        host = self._host
        # pyinfra's files for sudo's password are lost in the reboot; removing them through the
        # dead session would hang.
        clear_askpass_cache(host)
        close(host)
        host.disconnect()


def _what(error: BaseException) -> str:
    """Return what happened, without the next step: the rollout has one of its own."""
    return faults.of_error(error).partition(faults.NEXT)[0]
