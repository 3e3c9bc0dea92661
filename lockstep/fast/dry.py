"""Dry runs (``pyinfra --dry``): they look for changes even with ``-y``.

pyinfra 3.10 sets ``State.check_for_changes`` to False with ``-y``, before it reads the inventory,
and a dry run then shows nothing. The connector begins before the first operation is prepared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import click

if TYPE_CHECKING:
    from pyinfra.api.state import State

_contexts: WeakKeyDictionary[State, click.Context] = WeakKeyDictionary()
"""Dry run -> the context of its command line."""


def begins(state: State) -> None:
    """Have a dry run look for changes. A greenlet would not see click's context."""
    context = click.get_current_context(silent=True)
    if context is not None and context.params.get("dry"):
        state.check_for_changes = True
        _contexts[state] = context


def context_of(state: State) -> click.Context | None:
    """Return the context of the command line of a dry run; None for another run."""
    return _contexts.get(state)
