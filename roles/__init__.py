"""The roles of a node: one module per role, each with a declaration named ``ROLE``.

A declaration consists of data and of pure functions of the plan. Work that goes beyond packages,
files and units is an operation, in a module in ``operations``. Roles never import each other.
"""

import pkgutil
from functools import cache
from importlib import import_module

from lockstep.plan.declaration import Declaration

if __name__ != "lockstep.roles":
    # Under a second name, Python would load every module twice, with two registries of operations.
    raise ImportError("import this package as lockstep.roles, not as roles")


@cache
def declared() -> tuple[Declaration, ...]:
    """Return the declarations of all roles in this package, sorted by name."""
    names = (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return tuple(import_module(f"{__name__}.{name}").ROLE for name in sorted(names))
