"""Applies roles to a node, in the order that the roles declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module

from pyinfra import host
from pyinfra.api import deploy
from pyinfra.api.exceptions import PyinfraError

from lockstep.nearest import did_you_mean
from lockstep.plan import NodePlan
from lockstep.plan.declaration import FIRST, Declaration, Phase, Stage, Step, key
from lockstep.roles import declared
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.manifest import recorded
from lockstep.roles.operations.run import begins
from lockstep.roles.operations.workers_alone import deploys_heads


def apply_roles(plan: NodePlan, names: Iterable[str], phase: Phase = Phase.MAIN) -> None:
    """Apply some roles of a node's plan; leave its other roles alone.

    A run with ``--data roles=munge,slurm_worker`` applies only those two roles.

    Args:
        plan: the plan of the node.
        names: the names of the roles, in any order.
        phase: the phase whose stages are applied.

    Raises:
        PyinfraError: one of the roles does not exist.
    """
    if not begins(host.state, plan.cluster):
        return
    wanted = set(names)
    known = {role.name for role in plan.cluster.roles}
    _refuse_unknown(wanted, known)
    chosen = wanted & set(plan.roles) & asked_for(host.data.get("roles"), known)
    if host.data.get("roles"):
        asked = wanted & asked_for(host.data.get("roles"), known)
        for name in sorted(asked & plan.unmanaged & plan.managed_or_not.keys()):
            host.log(f"{name} is unmanaged: this run leaves it to the site")
    if chosen and phase is Phase.MAIN and not plan.is_worker:
        deploys_heads(host.state)
    # pyinfra derives an operation's identity from line numbers and from the position in host.loop:
    # a position per stage, the same on every host, keeps the stages of different roles apart.
    steps: Iterator[Step] = host.loop(plan.cluster.steps)  # type: ignore[no-untyped-call]  # pyinfra's
    for role, stage in steps:
        if role.name in chosen and stage.phase is phase and stage.nodes(plan):
            deploy(stage.title or role.title)(_operations(role, stage))(plan=plan)
        if phase is Phase.MAIN and key((role, stage)) == FIRST and chosen:
            roles = tuple(name for name in plan.roles if name in chosen)
            recorded(name="Manifest", plan=plan, roles=roles)


def roles_of_site(plan: NodePlan) -> tuple[str, ...]:
    """Return the roles that the site's inventory adds to Lockstep's own."""
    known = {role.name for role in declared()}
    return tuple(role.name for role in plan.cluster.roles if role.name not in known)


def asked_for(roles: str | None, known: set[str]) -> set[str]:
    """Return the roles selected with ``--data roles=munge,slurm_worker``; by default, all roles.

    Raises:
        PyinfraError: one of the roles does not exist.
    """
    if roles is None:
        return known
    names = set(str(roles).split(","))
    _refuse_unknown(names, known)
    return names


def _refuse_unknown(names: set[str], known: set[str]) -> None:
    unknown = sorted(names - known)
    if unknown:
        every = sorted(known)
        hint = did_you_mean(unknown[0], every, f"known roles: {', '.join(every)}")
        raise PyinfraError(f"unknown role {unknown[0]!r}; {hint}")


def _operations(role: Declaration, stage: Stage) -> Callable[..., None]:
    """Return a stage's function; a role's operations are imported only when they are needed."""
    own = import_module(role.operations) if role.operations else None
    usual = partial(_usual, role=role.name, afterwards=getattr(own, "afterwards", None))
    function: Callable[..., None] = getattr(own, stage.function, usual)
    # A new function: pyinfra sets attributes on it, and a site may name the argument differently.
    return lambda plan: function(plan)


def _usual(plan: NodePlan, role: str, afterwards: Callable[[NodePlan], None] | None) -> None:
    """Write a role's files, keep its units running with these files, then run its operations."""
    if put_files(plan, role):
        keep_units(plan, role)
        if afterwards:
            afterwards(plan)
