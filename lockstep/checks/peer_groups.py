"""Groups of peers: only nodes of one kind are compared with each other."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.checks.context import View
from lockstep.checks.rule import Peers
from lockstep.report import Reference, count


def groups(views: Iterable[View], peers: Peers) -> dict[str, list[View]]:
    """Return group name -> its nodes, for messages and votes."""
    found: dict[str, list[View]] = {}
    views = list(views)
    labels = sorted({view.context.label or view.plan.spec.name for view in views})
    everyone = f"of cluster {' and '.join(labels)}"
    for view in views:
        name = everyone if peers is Peers.OS else _name(view, peers)
        found.setdefault(name, []).append(view)
    return found


def _name(view: View, peers: Peers) -> str:
    if peers is Peers.ROLE:
        return f"of role {view.plan.role.value}"
    name = view.plan.hardware.name
    return f"of class {name}" + (
        f" of {view.context.label}" if name in view.context.redefined else ""
    )


def agreeing(nodes: int, of: int, group: str) -> str:
    """Return the reference: how many nodes agree, of how many where more than one differs."""
    agree = f"{nodes} of {count(of, 'node')}" if nodes < of - 1 else count(nodes, "node")
    return f"{Reference.PEERS.value}: {agree} {group}"
