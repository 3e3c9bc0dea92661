"""What roles will ask of a node, by role: so that the first execution reads all of it.

Only what costs little and starts nothing is here. What loads a driver (nvidia-smi, before the
options of its module are written), or asks another machine, is read when a role asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from lockstep.facts.clock import clock_offset
from lockstep.facts.files import file_states
from lockstep.facts.reading import Part, Question
from lockstep.files import paths
from lockstep.plan import NodePlan

Ahead = Callable[[NodePlan], Iterable[Question[object]]]

BY_ROLE: Mapping[str, Ahead] = {
    "time_sync": lambda plan: [clock_offset()],
    "": lambda plan: [file_states(paths(plan))],
}
"""Role -> what it asks of a node where it applies."""


def wanted(plan: object, roles: frozenset[str] | None = None) -> frozenset[Part]:
    """Return what the roles of a node will ask for; nothing without a plan.

    Args:
        plan: of the node, if its inventory has one.
        roles: those of this run; None: all.
    """
    if not isinstance(plan, NodePlan):
        return frozenset()
    return plan.once(f"ahead of {sorted(roles) if roles else 'all'}", lambda: _wanted(plan, roles))


def _wanted(plan: NodePlan, roles: frozenset[str] | None) -> frozenset[Part]:
    return frozenset(
        part
        for role, ahead in BY_ROLE.items()
        if not (role and roles) or role in roles
        for question in ahead(plan)
        for part in question.parts()
    )
