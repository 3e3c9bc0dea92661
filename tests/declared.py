"""What the roles declare, as lists for tests."""

from types import SimpleNamespace
from typing import cast

from lockstep.plan import NodePlan
from lockstep.plan.declaration import File, Unit
from lockstep.plan.network import UNITS as MANAGERS
from lockstep.plan.network import Assigned, Interface
from lockstep.roles import declared

INTERFACES = tuple(
    Interface(f"ib{i}", f"rail{i}", manager, (Assigned(f"fd00:{i}::1", f"fd00:{i}::/64"),))
    for i, manager in enumerate(MANAGERS)
)
PLAN = cast("NodePlan", SimpleNamespace(interfaces=INTERFACES))
"""What further files depend on: one interface of each program that keeps interfaces."""
FILES: tuple[tuple[str, File], ...] = tuple(
    (role.name, file) for role in declared() for file in (*role.files, *role.more_files(PLAN))
)
UNITS: dict[str, tuple[Unit, ...]] = {role.name: role.units for role in declared() if role.units}
