"""Who is compared with whom: like with like, so that two kinds of machine never vote together."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.checks.context import View
from lockstep.checks.rule import Peers


def groups(views: Iterable[View], peers: Peers) -> dict[str, list[View]]:
    """Return group name -> nodes of it, for messages and votes."""
    found: dict[str, list[View]] = {}
    for view in views:
        found.setdefault(_name(view, peers), []).append(view)
    return found


def _name(view: View, peers: Peers) -> str:
    if peers is Peers.CLASS:
        return f"of class {view.plan.hardware.name}"
    if peers is Peers.ROLE:
        return f"of role {view.plan.role.value}"
    return f"of cluster {view.plan.spec.name}"
