"""Finds the roles that own units, packages and files, and the roles that must run together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lockstep.plan.declaration import Declaration

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan


def first(plan: NodePlan, names: Callable[[Declaration], Iterable[str]]) -> dict[str, str]:
    """Map each name to the node's first role for which ``names`` returns that name."""
    found: dict[str, str] = {}
    for role in plan.roles.values():
        for name in names(role):
            found.setdefault(name, role.name)
    return found


def of_unit(plan: NodePlan, unit: str) -> tuple[str, ...]:
    """Return the role that runs a unit, or an empty tuple if no role does."""
    role = plan.system.role_of_unit.get(unit)
    return () if role is None else (role,)


def of_package(plan: NodePlan, name: str) -> tuple[str, ...]:
    """Return the role that installs a package, and the roles that need the package."""
    needed_by = (role for role, names in plan.software.by_role.items() if name in names)
    return tuple(dict.fromkeys(("packages", *needed_by)))


def readers(plan: NodePlan) -> dict[str, frozenset[str]]:
    """Map each role to the other roles whose files its units read when they start.

    A role must run after the roles whose files it reads; otherwise, its units use the old files.
    """
    owner = {
        path: role.name
        for role in plan.roles.values()
        for path in (*role.makes, *(file.path for file in role.files_on(plan)))
    }
    read = {
        role.name: {owner.get(path, role.name) for unit in role.units for path in unit.reads(plan)}
        for role in plan.roles.values()
    }
    return {name: frozenset(of - {name}) for name, of in read.items() if of - {name}}


def together(plan: NodePlan, roles: Iterable[str]) -> tuple[str, ...]:
    """Return the given roles of a node and the roles that read their files, in deploy order."""
    chosen = set(roles)
    of_others = plan.once(readers, lambda: readers(plan))
    chosen |= {role for role, read in of_others.items() if chosen & read}
    return tuple(role for role in plan.roles if role in chosen)
