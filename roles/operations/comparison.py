"""Workers that a deploy drains until they have been compared with the nodes of their class."""

from __future__ import annotations

import shlex
from weakref import WeakKeyDictionary

from pyinfra import host
from pyinfra.api import State

from lockstep.facts.slurm import TO_COMPARE

_waiting: WeakKeyDictionary[State, set[str]] = WeakKeyDictionary()


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
