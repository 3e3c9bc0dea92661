"""What the operations of a run replace or install, for ``lockstep log``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias
from weakref import WeakKeyDictionary

from pyinfra.api import Host, State

Noted: TypeAlias = dict[tuple[str, str], dict[str, None]]
"""Name of the host and hash of the operation -> paths of files, or names of packages."""
_noted: WeakKeyDictionary[State, Noted] = WeakKeyDictionary()


def note(host: Host, what: Iterable[str]) -> None:
    """Note what the operation that a host executes is about to replace or install.

    Before the run is executed, nothing is noted. An operation may decide twice.

    Args:
        host: the host.
        what: paths of files, or names of packages; never contents.
    """
    state, operation = host.state, host.executing_op_hash
    if state.is_executing and operation is not None:
        of_run = _noted.setdefault(state, {})
        of_run.setdefault((host.name, operation), {}).update(dict.fromkeys(what))


def of_operation(state: State, host: Host, operation: str) -> tuple[str, ...]:
    """Return what an operation of a host has noted in a run."""
    return tuple(_noted.get(state, {}).get((host.name, operation), ()))
