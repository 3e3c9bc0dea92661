"""Which role sets a unit or a package; and which roles have to run again after which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lockstep.plan import software

if TYPE_CHECKING:
    from lockstep.plan import NodePlan


def of_unit(plan: NodePlan, unit: str) -> tuple[str, ...]:
    """Return the role that runs a unit; none for a unit that no role has."""
    running = software.units_by_role(plan)
    return tuple(role for role, units in running.items() if unit in {one.name for one in units})[:1]


def of_package(plan: NodePlan, name: str) -> tuple[str, ...]:
    """Return the role that installs a package, and those that run or configure its content."""
    needed = software.packages_by_role(plan)
    named = (role for role, names in needed.items() if name in names)
    return tuple(dict.fromkeys(("packages", *named)))


def readers(plan: NodePlan) -> dict[str, frozenset[str]]:
    """Return role -> other roles whose files its units read at their start.

    It runs after them, or works with the old ones.
    """
    owner = {
        path: role.name
        for role in plan.roles
        for path in (*role.makes, *(file.path for file in role.files if file.wanted(plan)))
    }
    found = {
        role.name: frozenset(
            owner[path] for unit in role.units for path in unit.reads(plan) if path in owner
        )
        - {role.name}
        for role in plan.roles
    }
    return {name: others for name, others in found.items() if others}


def together(plan: NodePlan, roles: Iterable[str]) -> tuple[str, ...]:
    """Return those of these roles that a node has, with their readers, in deploy order."""
    chosen = set(roles)
    read_by = plan.once("readers", lambda: readers(plan))
    chosen |= {role for role, read in read_by.items() if chosen & read}
    return tuple(role for role in plan.capabilities if role in chosen)
