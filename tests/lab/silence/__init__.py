"""Lives of labs: all that happens to equal nodes and leaves them equal.

Each lab is deployed and used in another way, drawn from a seed. After that a check may find
nothing. The clock of a container is the host's, so no lab lives through several days: files and
passwords get older dates instead, logs rotate, and daily jobs run several times.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Something that happens to a node and leaves it equal to its peers."""

    name: str
    script: str
    """Shell script on the node; it fails if the event did not happen."""
    user: bool = False
    """Whether a person runs it over ssh, instead of root on the console."""
    head: bool = False
    """Whether it happens on the head. The placeholder NODE is the worker that it uses."""
    boots: bool = False
    """Whether the script begins a reboot, or the node is powered off and on after it."""
    rare: bool = False
    """Whether it happens in half of the labs; all others happen in each."""
