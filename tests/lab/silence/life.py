"""Draws the life of a lab: how it was deployed, and what happened to which of its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.lab.silence import Event
from tests.lab.silence.deployments import DEPLOYMENTS, WORKERS, Deployment
from tests.lab.silence.events import EVENTS

BOTH, RARE = 0.25, 0.5
"""Probability that an event happens to both workers, each at another time; that a rare one does."""


@dataclass(frozen=True)
class Life:
    """What one lab went through."""

    seed: str
    deployment: Deployment
    events: tuple[tuple[str, Event], ...]
    """(worker, event) in order."""
    deployed_again: bool
    """Whether a last deploy follows the events."""


def drawn(seed: int, number: int) -> Life:
    """Draw the life of one lab; the same numbers give the same life.

    The labs take turns in how they are deployed. An event happens to one worker, or to both.

    Args:
        seed: the seed of all labs.
        number: which of them, from 0 on.
    """
    text = f"{seed}.{number}"
    chance = Random(text)
    deployment = DEPLOYMENTS[number % len(DEPLOYMENTS)]
    happening = [event for event in EVENTS if not event.rare or chance.random() < RARE]
    pairs = [(worker, event) for event in happening for worker in _workers(chance)]
    chance.shuffle(pairs)
    return Life(text, deployment, tuple(pairs), chance.random() < BOTH)


def _workers(chance: Random) -> Sequence[str]:
    return WORKERS if chance.random() < BOTH else (chance.choice(WORKERS),)
