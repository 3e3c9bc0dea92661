"""Who may go next: one rollout is shared by all hosts of a run, and ends at the first that fails.

The operations of all hosts run side by side, each in a greenlet of its own (pyinfra's command
line turns threads and their locks into gevent's); what they share is kept here. Nobody waits
for a node: a turn ends with its operation, whatever became of the node.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from pyinfra.api import State

ARRIVAL_S = 0.1
"""All hosts come at once; they are let in by their order, not by their arrival."""


class Rollout:
    """Slots, the order in which they are given, and whether it goes on at all."""

    def __init__(self) -> None:
        """Start with no node away."""
        self._changed = threading.Condition()
        self._waiting: set[tuple[int, str]] = set()
        self._away: set[str] = set()
        self.done: set[str] = set()
        """Nodes that had their turn, whatever came of it."""
        self.stopped = ""
        """Where and why it ended; "" while it goes on."""

    @contextmanager
    def turn(self, node: str, place: int, at_once: int) -> Iterator[str]:
        """Wait for a slot and hold it; give why there is none, or "".

        Args:
            node: the one that asks.
            place: the lowest goes first.
            at_once: slots in all.
        """
        ticket = (place, node)
        with self._changed:
            self._waiting.add(ticket)
        time.sleep(ARRIVAL_S)
        with self._changed:
            try:
                self._changed.wait_for(
                    lambda: (
                        self.stopped or (len(self._away) < at_once and ticket == min(self._waiting))
                    )
                )
            finally:
                self._waiting.discard(ticket)
                self._changed.notify_all()
            if not self.stopped:
                self._away.add(node)
        try:
            yield self.stopped
        finally:
            with self._changed:
                self._away.discard(node)
                self.done.add(node)
                self._changed.notify_all()

    def stop(self, node: str, why: str) -> None:
        """Let no further node begin; the first reason stays."""
        with self._changed:
            self.stopped = self.stopped or f"rollout stopped at {node} ({why})"
            self._changed.notify_all()


_ROLLOUTS: WeakKeyDictionary[State, Rollout] = WeakKeyDictionary()


def rollout_of(state: State) -> Rollout:
    """Return the rollout of a run of pyinfra: the same for each of its hosts."""
    return _ROLLOUTS.setdefault(state, Rollout())
