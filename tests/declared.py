"""What the roles declare, as lists for tests."""

from lockstep.plan.declaration import File, Unit
from lockstep.roles import declared

FILES: tuple[tuple[str, File], ...] = tuple(
    (role.name, file) for role in declared() for file in role.files
)
UNITS: dict[str, tuple[Unit, ...]] = {role.name: role.units for role in declared() if role.units}
