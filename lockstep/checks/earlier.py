"""Which side of a split is right: the one that is as it was when the nodes were last equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lockstep.checks.compare import Split, Vote, key
from lockstep.checks.context import Items, View
from lockstep.probe.record import Unread
from lockstep.when import between


@dataclass(frozen=True)
class LastEqual:
    """The side that still has the value of the last check in which all nodes were equal."""

    right: tuple[Vote, ...]
    changed: str
    """When the other nodes have changed; "" if only this check shows it."""


def last_equal(
    split: Split, views: Mapping[str, View], items: Callable[[View], Items]
) -> LastEqual | None:
    """Return the side that is right, from earlier records; None if they do not tell.

    Args:
        split: the votes.
        views: node name -> view.
        items: returns the items that the rule compares on a node.
    """
    votes = [one for side in split.sides for one in side if one.node == side[0].node]
    contexts = {id(views[one.node].context): views[one.node].context for one in votes}
    (context, *others) = contexts.values()
    if others or context.earlier is None:
        return None
    nodes = {views[one.node].plan.name for one in votes}
    differed: float | None = None
    for read_at, records in context.earlier(tuple(sorted(nodes))):
        if not nodes <= records.keys():
            continue
        then = replace(context, reading=dict(records)).views
        values = [items(then[one.node]).get(one.device) for one in votes]
        known = [
            key(value) for value in values if value is not None and not isinstance(value, Unread)
        ]
        if len(known) < len(votes):
            continue
        if len({*known}) == 1:
            right = [side for side in split.sides if key(side[0].value) == known[0]]
            changed = "" if differed is None else between(read_at, differed)
            return LastEqual(right[0], changed) if right else None
        differed = read_at
    return None
