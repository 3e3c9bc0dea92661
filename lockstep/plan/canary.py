"""The order of nodes in a deploy that goes in steps: one node of each kind, then shares of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from itertools import zip_longest

from lockstep.report import alike


def steps(
    kinds: Mapping[str, Hashable], changing: Collection[str], share: float
) -> tuple[tuple[str, ...], ...]:
    """Return the steps of a deploy; the first one has one node of each kind, the canaries.

    Nodes that need no change tell nothing about the deploy. They belong to the last step.

    Args:
        kinds: node -> a key that is the same for nodes of a kind (``NodePlan.kind``). The order of
            the nodes decides which ones are the canaries.
        changing: the nodes that need a change.
        share: the part of a kind's changing nodes that one step has, above 0 and up to 1; at least
            one node.
    """
    wanted = {*changing}
    of_kinds = [
        _of_kind(nodes, share)
        for nodes in alike((name for name in kinds if name in wanted), kinds.__getitem__).values()
    ]
    found = [
        tuple(name for part in parts for name in part)
        for parts in zip_longest(*of_kinds, fillvalue=())
    ]
    others = tuple(name for name in kinds if name not in wanted)
    if not found:
        return (others,) if others else ()
    return (*found[:-1], (*found[-1], *others))


def _of_kind(nodes: list[str], share: float) -> list[tuple[str, ...]]:
    size = math.ceil(len(nodes) * share)
    later = [tuple(nodes[first : first + size]) for first in range(1, len(nodes), size)]
    return [(nodes[0],), *later]
