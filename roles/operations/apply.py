"""Applies roles to a node, in the order that they declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Protocol

from pyinfra import host
from pyinfra.api import deploy
from pyinfra.api.exceptions import PyinfraError

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, Phase, Stage, Step, key
from lockstep.roles import declared
from lockstep.roles.operations.declared import files_and_units
from lockstep.roles.operations.manifest import recorded

PACKAGES = "packages"
"""The role after which a deploy records what it brings."""


class Apply(Protocol):
    """What a stage of a role does to a node of a plan."""

    def __call__(self, plan: NodePlan) -> None:
        """Bring the node to its plan."""


def apply_roles(plan: NodePlan, names: Iterable[str], phase: Phase = Phase.MAIN) -> None:
    """Bring a node to its plan, as far as these roles are concerned; others are left alone.

    A run with ``--data roles=munge,slurm_worker`` applies only those.

    Args:
        plan: of the node.
        names: roles, in any order.
        phase: which of their stages.

    Raises:
        PyinfraError: there is no role of a name.
    """
    wanted = set(names)
    known = {role.name for role in plan.cluster.roles}
    _refuse_unknown(wanted, known)
    chosen = wanted & set(plan.capabilities) & asked_for(host.data.get("roles"), known)
    # pyinfra takes an operation's identity from line numbers and from the position in host.loop:
    # a position per stage, the same on every host, keeps the stages of different roles apart.
    steps: Iterator[Step] = host.loop(plan.cluster.steps)  # type: ignore[no-untyped-call]  # pyinfra's
    for role, stage in steps:
        if role.name in chosen and stage.phase is phase and stage.nodes(plan):
            deploy(stage.title or role.title)(_operations(role, stage))(plan=plan)
        if phase is Phase.MAIN and key((role, stage)) == PACKAGES and chosen:
            roles = tuple(name for name in plan.capabilities if name in chosen)
            recorded(name="Manifest", plan=plan, roles=roles)


def roles_of_site(plan: NodePlan) -> tuple[str, ...]:
    """Return the roles that the site's inventory adds to those of Lockstep."""
    known = {role.name for role in declared()}
    return tuple(role.name for role in plan.cluster.roles if role.name not in known)


def asked_for(roles: str | None, known: set[str]) -> set[str]:
    """Return the roles that ``--data roles=munge,slurm_worker`` names; all without it.

    Raises:
        PyinfraError: there is no such role.
    """
    if roles is None:
        return known
    names = set(str(roles).split(","))
    _refuse_unknown(names, known)
    return names


def _refuse_unknown(names: set[str], known: set[str]) -> None:
    unknown = sorted(names - known)
    if unknown:
        raise PyinfraError(f"no role {unknown[0]!r}; the roles: {', '.join(sorted(known))}")


def _operations(role: Declaration, stage: Stage) -> Apply:
    """Return what a stage does; a module with operations is imported when it is needed."""

    def applied(plan: NodePlan) -> None:
        own = import_module(role.operations) if role.operations else None
        special = getattr(own, stage.function, None)
        if special is not None:
            special(plan)
        else:
            files_and_units(plan, role.name)

    return applied
