"""The run of pyinfra as a whole: it locks the cluster, and keeps what it has changed.

Owns     /run/lockstep/lock on the first head, which names the run that changes the cluster.
Restart  nothing.
"""

from __future__ import annotations

import shlex
import signal
import sys
import time
from contextlib import nullcontext
from importlib import metadata
from types import FrameType
from typing import Any
from weakref import WeakSet

import click
import pyinfra
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.output import format_text
from pyinfra.api.state import StateStage

from lockstep import lock
from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.fast.connector import record_of
from lockstep.history import runs, store
from lockstep.history.runs import Result
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.report import fold
from lockstep.roles.operations.dry import begins as begins_dry
from lockstep.roles.operations.results import Results, commit_of

FOLDER = "/run/lockstep"
NAME = "lock"
WITHIN_S = 20.0
"""Seconds within which the head has to answer."""
SHOWN_DATA = frozenset({"roles", "canary", "compare", "packages", "users", "snapshot", "lost"})
"""The ``--data`` whose values may be shown; others may be secrets."""
HIDDEN = frozenset({"--data", "--ssh-password", "--ssh-key-password"})

_UNDER_LOCK = """\
umask 077; mkdir -p -m 755 {folder} && exec 9>>{folder}/{name} && flock -w 10 9 || exit 1
IFS= read -r run; IFS= read -r ended; held=$(cat {folder}/{name})
"""
_TAKE = (
    _UNDER_LOCK
    + """\
[ -n "$held" ] && [ "$held" != "$ended" ] || printf '%s\\n' "$run" >{folder}/{name}
cat {folder}/{name}"""
)
_LEAVE = _UNDER_LOCK + """[ "$held" != "$run" ] || : >{folder}/{name}"""


_said: WeakSet[State] = WeakSet()
"""The runs that have said that nothing is managed."""


def begins(state: State, plan: ClusterPlan) -> bool:
    """Have this run take the lock of the cluster before its first operation is executed.

    Returns False, and says so once, if the description leaves every role to the site.

    ``--dry``, and a run that is not confirmed, take no lock. Every step that changes nodes calls
    this while pyinfra prepares the run; only the first call has an effect.

    Args:
        state: the run.
        plan: the plan of the cluster.
    """
    if plan.spec.manages_nothing:
        if state not in _said:
            _said.add(state)
            _warn(
                "Nothing is managed: the description leaves every role to the site (unmanaged), so "
                "this run changes nothing. Next: name only the roles that the site keeps for now"
            )
        return False
    begins_dry(state)
    if pyinfra.is_cli and not any(isinstance(one, Run) for one in state.callback_handlers):
        state.add_callback_handler(Run(state, plan))  # type: ignore[no-untyped-call]  # pyinfra's
    return True


DONE = (Result.CHANGED, Result.NONE)


class Run(Results):
    """One run of pyinfra's command: it has the lock while it executes, and saves its results."""

    def __init__(self, state: State, plan: ClusterPlan) -> None:
        """Follow the stages of the run."""
        super().__init__()
        self._state, self._plan = state, plan
        self._holder = lock.this_run(command_line())
        self._lock: lock.Lock | None = None
        self._talk: Conversation | None = None
        """With the head that has the lock of this run; None: no head has."""
        self._head: Host | None = None
        self._was_connected = False
        self._executes, self._commit = False, ""
        self._usual_stage = state.set_stage
        setattr(state, "set_stage", self._set_stage)  # noqa: B010  # for mypy a method
        signal.signal(signal.SIGINT, self._interrupted)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """Say on Ctrl-C in one line what was done, and end with the status of a shell."""
        if not self._executes:
            said = "nothing was changed"
        else:
            nodes = self.of_nodes(self._state)
            partly = [name for name, one in nodes.items() if one.result is Result.UNFINISHED]
            groups = {
                "may be incomplete": [name for name in partly if nodes[name].changes],
                "untouched": [name for name in partly if not nodes[name].changes],
                "failed": [name for name, one in nodes.items() if one.result is Result.FAILED],
                "done": [name for name, one in nodes.items() if one.result in DONE],
            }
            said = "; ".join(f"{what}: {fold(names)}" for what, names in groups.items() if names)
        logger.info(format_text(f"--> Interrupted: {said}. Next: {self._holder.command}", "yellow"))
        sys.exit(128 + signal.SIGINT)

    def _set_stage(self, stage: StateStage) -> None:
        # pyinfra tells no callback that a run begins to execute, or that it has ended.
        if stage is StateStage.Execute:
            self._take()
        if stage is StateStage.Disconnect:
            self._end()
        self._usual_stage(stage)

    def _take(self) -> None:
        """Take both locks.

        Raises:
            PyinfraError: another run has one of them.
        """
        # After an error or Ctrl-C, this is the first place that pyinfra's command leaves.
        click.get_current_context().call_on_close(self._end)
        try:
            path = lock.file(self._plan.spec.name, self._plan.spec.records_dir)
            self._lock = lock.Lock(path, self._holder)
            self._take_on_head()
        except lock.Locked as locked:
            self._end()
            raise PyinfraError(str(locked)) from locked
        self._commit = commit_of(self._plan.inventory)
        self._executes = True

    def _take_on_head(self) -> None:
        """Write this run into the lock on the head; go on with a warning if it does not answer.

        Raises:
            Locked: a run of another machine has the lock.
        """
        host = next((one for one in self._state.inventory if _is(one, keeper(self._plan))), None)
        if host is None:
            return
        self._head, self._was_connected = host, bool(host.connected)
        talk = Conversation(host, connector_arguments(host))
        try:
            found = self._say(talk, _TAKE, "")
            other = lock.parsed(found)
            if other is not None and other.has_ended:
                found = self._say(talk, _TAKE, found)
                other = lock.parsed(found)
        except Unanswered as unanswered:
            self._close(talk)
            _warn(
                f"{host.name} has no lock, because {unanswered}. A run that another machine "
                "starts meanwhile is not noticed"
            )
            return
        self._talk = talk
        if found != self._holder.text:
            raise lock.Locked(_taken(host.name, self._plan, other, found))

    def _end(self) -> None:
        """Save the results, and release both locks; a second call has no effect."""
        if self._executes:
            self._executes = False
            self._save()
        talk, self._talk = self._talk, None
        if talk is not None:
            try:
                self._say(talk, _LEAVE, "")
            except Unanswered as unanswered:
                _warn(
                    f"the lock of this run stays on {keeper(self._plan)}, because {unanswered}. "
                    "The next run from this machine replaces it; for other machines: "
                    f"{self._plan.deploy_command('unlock')}"
                )
            self._close(talk)
        taken, self._lock = self._lock, None
        if taken is not None:
            taken.release()

    def _save(self) -> None:
        """Keep what was changed; a history that cannot be written is no fault of the deploy."""
        spec = self._plan.spec
        run = runs.Run(
            began=self._holder.since,
            ended=time.time(),
            user=self._holder.user,
            host=self._holder.host,
            command=self._holder.command,
            version=metadata.version("lockstep"),
            commit=self._commit,
            nodes=self.of_nodes(self._state),
        )
        try:
            with store.opened(store.file(spec.name, spec.records_dir)) as history:
                runs.save(history, run)
        except store.HistoryError as error:
            _warn(f"lockstep log will not show this run: {error}")

    def _say(self, talk: Conversation, script: str, ended: str) -> str:
        """Run a script on the head; return what it prints.

        Raises:
            Unanswered: the head does not answer, or the script fails.
        """
        record = None if self._head is None else record_of(self._head)
        if record is not None:
            # Readings have limits of their own: an API server that hangs is none of the lock's.
            record.settle()
        with nullcontext() if record is None else record.only_reading():
            succeeded, output = talk.say(
                script.format(folder=FOLDER, name=NAME),
                within_s=WITHIN_S,
                _stdin=[self._holder.text, ended],
            )
        if not succeeded:
            said = " ".join(output.stderr_lines).strip()[:200] or "no message"
            raise Unanswered(f"{FOLDER}/{NAME} cannot be written: {said}")
        return "\n".join(output.stdout_lines)

    def _close(self, talk: Conversation) -> None:
        """Close a connection that pyinfra has not opened and would not close."""
        if not self._was_connected:
            talk.close()


def keeper(plan: ClusterPlan) -> str:
    """Return the name of the node that keeps the lock: the first head of the description."""
    return next(iter(plan.heads or plan.nodes))


def command_line() -> str:
    """Return the command line of this run; values that may be secrets are replaced by "..."."""
    words, rest = ["pyinfra"], iter(sys.argv[1:])
    for word in rest:
        option, joined, value = word.partition("=")
        if option not in HIDDEN:
            words.append(word)
            continue
        value = value if joined else next(rest, "")
        shown = value if value.partition("=")[0] in SHOWN_DATA else "..."
        words += [f"{option}={shown}"] if joined else [option, shown]
    return shlex.join(words)


def _warn(text: str) -> None:
    logger.warning(format_text(f"--> {text}", "yellow"))


def _is(host: Host, name: str) -> bool:
    plan: Any = host.data.get("plan")
    return isinstance(plan, NodePlan) and plan.name == name


def _taken(head: str, plan: ClusterPlan, other: lock.Holder | None, found: str) -> str:
    if other is None:
        return (
            f"{head}: another version of Lockstep wrote {FOLDER}/{NAME}; nothing was changed\n"
            f"  found     {found[:100]!r}\n"
            f"  next      if no run goes on, break the lock: {plan.deploy_command('unlock')}"
        )
    return (
        f"another run is changing this cluster, as {head} says; nothing was changed\n"
        f"{other.described(time.time())}\n"
        f"  next      wait until it ends, or end it on {other.host}: kill -INT {other.pid}; if it "
        f"is over, break its lock: {plan.deploy_command('unlock')}"
    )
