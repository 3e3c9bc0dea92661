"""A rollout, which all hosts of a run share; after it is stopped, no further node gets a slot.

The operations of all hosts run side by side, each in its own greenlet (pyinfra's command line
replaces threads and locks with gevent's); they share the state in this module. A turn ends with its
operation, whatever happened to the node, so no host waits for a lost node.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from weakref import WeakKeyDictionary

from pyinfra.api import State

ARRIVAL_S = 0.1
"""Seconds that a host waits before it takes a slot, so that all hosts can ask for one first.

A host that asks later merely goes out of turn; the number of slots is never exceeded.
"""


class Rollout:
    """The slots of a rollout, the order of the hosts, and whether the rollout was stopped."""

    def __init__(self) -> None:
        """Start with all slots free."""
        self._changed = threading.Condition()
        self._waiting: set[tuple[int, str]] = set()
        self._away: set[str] = set()
        self.done: set[str] = set()
        """Nodes that have had their turn, whatever the result."""
        self.stopped = ""
        """The reason why the rollout stopped, with the node's name; "" while it goes on."""

    @contextmanager
    def turn(self, node: str, place: int, at_once: int) -> Iterator[str]:
        """Wait for a slot and hold it; yield "", or the reason why this node gets no slot.

        Args:
            node: the node that needs the slot.
            place: its position in the order; the lowest goes first.
            at_once: the number of slots.
        """
        ticket = (place, node)
        with self._changed:
            self._waiting.add(ticket)
        sleep(ARRIVAL_S)
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

    def stop(self, why: str) -> None:
        """Stop the rollout, so that no further node gets a slot; only the first reason is kept."""
        with self._changed:
            self.stopped = self.stopped or f"the rollout stopped because {why}"
            self._changed.notify_all()


_ROLLOUTS: WeakKeyDictionary[State, Rollout] = WeakKeyDictionary()


def rollout_of(state: State) -> Rollout:
    """Return the rollout of a pyinfra run, which all its hosts share."""
    return _ROLLOUTS.setdefault(state, Rollout())
