"""Changes that an operator makes on one node and forgets, by domain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """One change, and the object whose difference must be found."""

    name: str
    script: str
    """Shell script that root runs on the node."""
    undo: str
    """Shell script after which the node is as before."""
    domain: str
    object: str
    """Name of the object in the fingerprint."""
    alone: bool = False
    """Whether the node alone shows it: what runs differs from what is configured."""
    node: str = ""
    """The only node on which it is made and found; empty: any worker."""
    apart: bool = False
    """Whether no other change can be made at the same time, because it reaches other nodes."""
