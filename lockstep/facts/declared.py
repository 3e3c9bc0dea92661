"""The questions that a node's roles declare about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lockstep.facts.files import file_states
from lockstep.facts.manifest import manifest_state
from lockstep.facts.services import service_state
from lockstep.plan import NodePlan
from lockstep.plan.declaration import FIRST, Declaration, Phase, Stage, key
from lockstep.question import Part, Question


def declared(plan: object, roles: frozenset[str] | None = None) -> tuple[frozenset[Part], ...]:
    """Return the parts of each question that a node's roles ask, in deploy order.

    Args:
        plan: the plan of the node; if the inventory contains none, the result is empty.
        roles: the roles of this run; None: all.
    """
    if not isinstance(plan, NodePlan):
        return ()
    return plan.once(
        # All questions are about this node: a worker asks the controller about itself only.
        (declared, plan.name, roles),
        lambda: tuple(question.parts() for question in _in_order(plan, roles)),
    )


def _in_order(plan: NodePlan, roles: frozenset[str] | None) -> Iterable[Question[Any]]:
    for role, stage in plan.cluster.steps:
        if role.name in plan.roles and (roles is None or role.name in roles):
            yield from _questions(plan.roles[role.name], stage, plan)
        if key((role, stage)) == FIRST:
            yield manifest_state()


def _questions(role: Declaration, stage: Stage, plan: NodePlan) -> Iterable[Question[Any]]:
    if stage.function != "apply" or stage.phase is not Phase.MAIN:
        yield from stage.asks(plan)
        return
    files = tuple(file.path for file in role.files_on(plan))
    yield file_states(files)
    for unit in role.units:
        if unit.wanted(plan):
            own = files if unit.reads_own_files else ()
            yield service_state(unit.name, (*own, *unit.starts_with(plan)))
    yield from role.asks(plan)
