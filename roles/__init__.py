"""What a node can be given: one module per role, each with a declaration named ``ROLE``.

A declaration is data and pure functions of the plan. What does not follow from packages, files and
units is an operation, in a module of ``operations``. Roles never import each other.
"""

import pkgutil
from functools import cache
from importlib import import_module

from lockstep.plan.declaration import Declaration

if __name__ != "lockstep.roles":
    # One module under two names would be two modules: two operations, two registries.
    raise ImportError("import it as lockstep.roles: roles/ is that package")


@cache
def declared() -> tuple[Declaration, ...]:
    """Return the declarations of all roles of this package, by name."""
    names = (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return tuple(import_module(f"{__name__}.{name}").ROLE for name in sorted(names))
