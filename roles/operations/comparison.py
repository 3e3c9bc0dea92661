"""Workers that a deploy drains until they have been compared with the nodes of their class."""

from __future__ import annotations

import shlex
from weakref import WeakKeyDictionary

from pyinfra import host
from pyinfra.api import State
from pyinfra.api.exceptions import PyinfraError

from lockstep.facts.slurm import TO_COMPARE

_waiting: WeakKeyDictionary[State, set[str]] = WeakKeyDictionary()


def compares() -> bool:
    """Return whether this run compares workers before Slurm resumes them (``--data compare=yes``).

    Raises:
        PyinfraError: the value is neither yes nor no.
    """
    value = str(host.data.get("compare") or "no")
    if value not in ("yes", "no"):
        raise PyinfraError(f"--data compare={value}: expected yes or no")
    return value == "yes"


def waiting(state: State) -> set[str]:
    """Return the names of the workers that wait, in a run."""
    return _waiting.setdefault(state, set())


def wait_for_comparison() -> None:
    """Note that the current host may be drained until it has been compared."""
    waiting(host.state).add(host.name)


def drain(nodes: str, reason: str = TO_COMPARE) -> str:
    """Return a command that drains nodes; running jobs go on."""
    named = f"NodeName={shlex.quote(nodes)} State=DRAIN Reason={shlex.quote(reason)}"
    return f"timeout 30 scontrol update {named}"
