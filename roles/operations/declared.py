"""What follows from a declaration: its files are put in place, its units run on them."""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Unit
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.secrets import secrets_of
from lockstep.roles.operations.service import units


def files_and_units(plan: NodePlan, role: str) -> None:
    """Put a role's files in place, then keep its units running on them."""
    if put_files(plan, role):
        keep_units(plan, role)


def put_files(plan: NodePlan, role: str) -> bool:
    """Put a role's files in place; return False after an operation that fails for lack of secrets.

    Args:
        plan: of the node.
        role: one that the node has.
    """
    declared = plan.role_named(role)
    secrets = None
    if any(file.secret for file in declared.files):
        secrets = secrets_of(plan)
        if secrets is None:
            return False
    if declared.files:
        managed_files(name="Files", files=managed(plan, secrets, role))
    return True


def keep_units(plan: NodePlan, role: str, *names: str) -> None:
    """Keep the units of a role enabled, and running on the files that are there.

    Args:
        plan: of the node.
        role: one that the node has.
        names: of units; none: all of the role.
    """
    wanted = [
        unit
        for unit in plan.role_named(role).units
        if unit.wanted(plan) and (not names or unit.name in names)
    ]
    if wanted:
        units(name="Services", wanted=tuple(_service(plan, role, unit) for unit in wanted))


def _service(
    plan: NodePlan, role: str, unit: Unit
) -> tuple[str, tuple[str, ...], tuple[str, ...], bool]:
    """Return a unit, what it reads at its start, what it reads again, and whether it must run."""
    own: tuple[str, ...] = ()
    if unit.reads_own_files:
        own = tuple(file.path for file in plan.role_named(role).files if file.wanted(plan))
    again = tuple(path for path in own if unit.reloads and path.endswith(unit.reloads))
    at_start = (
        *(path for path in own if path not in again),
        *unit.starts_with(plan),
    )
    return unit.name, at_start if unit.restart == "changed" else (), again, unit.essential
