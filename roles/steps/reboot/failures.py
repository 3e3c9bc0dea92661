"""How the turn of a node in a rolling reboot fails."""

from __future__ import annotations


class Failed(Exception):
    """Ends the rollout. Every host shows the reason; the failed host also shows the next step."""

    def __init__(self, why: str, then: str) -> None:
        """Store the reason (a clause that names the node) and the next step."""
        super().__init__(why)
        self.then = then


class Alone(Failed):
    """Fails only this node: the rollout goes on with the others."""


class NotAgain(Alone):
    """Nothing was changed on the node."""


def in_words(jobs: tuple[str, ...] | None) -> str:
    """Return the jobs on a node as text."""
    if jobs is None:
        return "an unknown number of jobs (the controller is not responding)"
    if not jobs:
        return "a job that is ending"
    return f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'} ({', '.join(jobs)})"
