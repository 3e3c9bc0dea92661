"""Packages, units and settings of a node, as the declarations of its roles have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lockstep.catalog.os import Release
from lockstep.plan.declaration import Declaration, Paths, Unit

if TYPE_CHECKING:
    from lockstep.plan import NodePlan


def roles(plan: NodePlan) -> tuple[Declaration, ...]:
    """Return the roles of a node, in the order of a deploy.

    What its system cannot get yet is left out; ``validate`` refuses a description that asks for it.
    So is what the description leaves to the site.
    """
    release = plan.cluster.release
    unmanaged = plan.spec.unmanaged
    return tuple(
        role
        for role in plan.cluster.roles
        if role.name not in unmanaged and release.can(role.name) and role.when(plan)
    )


def packages_by_role(plan: NodePlan) -> dict[str, tuple[str, ...]]:
    """Return role -> packages that it needs."""
    return {
        role.name: tuple(
            dict.fromkeys((*role.packages_on(plan.cluster.release), *role.more_packages(plan)))
        )
        for role in plan.roles
    }


def packages(plan: NodePlan) -> tuple[str, ...]:
    """Return every package of a node, sorted; none where the release has no package manager yet."""
    if "packages" not in plan.capabilities:
        return ()
    return tuple(sorted(set[str]().union(*packages_by_role(plan).values())))


def every_package(release: Release, declared: Iterable[Declaration]) -> tuple[str, ...]:
    """Return every package of the distribution that any node of a cluster may get, sorted."""
    of_roles = {name for role in declared for name in role.packages_on(release)}
    return tuple(sorted(of_roles | set(release.every_package)))


def units_by_role(plan: NodePlan) -> dict[str, tuple[Unit, ...]]:
    """Return role -> units that it runs on a node."""
    return {
        role.name: tuple(unit for unit in role.units if unit.wanted(plan)) for role in plan.roles
    }


def all_units(plan: NodePlan) -> tuple[Unit, ...]:
    """Return the units that must be enabled and running."""
    return tuple(unit for units in units_by_role(plan).values() for unit in units)


def contributed(plan: NodePlan, what: str) -> tuple[str, ...]:
    """Return what the roles of a node contribute, each once.

    Args:
        plan: of the node.
        what: a field of ``Contribution`` that names things.
    """
    found: list[str] = []
    for role in plan.roles:
        named: Paths = getattr(role.contributes, what)
        found += named(plan)
    return tuple(dict.fromkeys(found))


def kernel_args(plan: NodePlan) -> tuple[str, ...]:
    """Return the kernel arguments of a node; the same key may stand there more than once."""
    return tuple(arg for role in plan.roles for arg in role.contributes.kernel_args(plan))


def sysctl(plan: NodePlan) -> dict[str, str]:
    """Return the kernel parameters of a node."""
    keys: dict[str, str] = {}
    for role in plan.roles:
        if role.contributes.sysctl is not None:
            keys |= role.contributes.sysctl(plan)
    return keys
