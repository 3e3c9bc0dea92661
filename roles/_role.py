"""The decorator of every role: pyinfra's deploy, left out of a run that names other roles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pyinfra import host
from pyinfra.api import deploy
from pyinfra.api.exceptions import PyinfraError

from lockstep.plan import NodePlan


@functools.cache
def known() -> tuple[str, ...]:
    """Return the names of all roles."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py")))


def chosen(asked: str | None) -> frozenset[str]:
    """Return the roles that ``--data roles=munge,slurm_worker`` names; all without it.

    Raises:
        PyinfraError: there is no such role.
    """
    if asked is None:
        return frozenset(known())
    names = frozenset(str(asked).split(","))
    unknown = sorted(names - set(known()))
    if unknown:
        raise PyinfraError(f"no role {unknown[0]!r}; the roles: {', '.join(known())}")
    return names


class Apply(Protocol):
    """What every role has: what it does to a node of that plan."""

    __module__: str

    def __call__(self, plan: NodePlan) -> None:
        """Bring the node to its plan."""


def role(name: str) -> Callable[[Apply], Apply]:
    """Make a function a deploy that does nothing where the run names other roles.

    Args:
        name: as pyinfra shows it.
    """

    def decorated(apply: Apply) -> Apply:
        own = apply.__module__.rpartition(".")[2]
        applied = deploy(name)(apply)

        @functools.wraps(apply)
        def where_chosen(plan: NodePlan) -> None:
            if own in chosen(host.data.get("roles")):
                applied(plan=plan)

        return where_chosen

    return decorated
