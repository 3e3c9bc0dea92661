"""Which roles set what: a unit, a package; and who has to run again after whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lockstep.plan import software

if TYPE_CHECKING:
    from lockstep.plan import NodePlan

READS: Mapping[str, tuple[str, ...]] = {"slurm_worker": ("munge", "pyxis")}
"""Role -> roles whose files its service reads: it runs after them, or works with the old ones."""


def of_unit(plan: NodePlan, unit: str) -> tuple[str, ...]:
    """Return the role that runs a unit; none for a unit that no role has."""
    running = software.units_by_role(plan.spec, plan.capabilities)
    return tuple(role for role, units in running.items() if unit in units)[:1]


def of_package(plan: NodePlan, name: str) -> tuple[str, ...]:
    """Return the role that installs a package, and those that run or configure what is in it."""
    needed = software.packages_by_role(
        plan.spec, plan.cluster.release, plan.node, plan.capabilities, plan.nvidia
    )
    return ("packages", *(role for role, names in needed.items() if name in names))


def together(plan: NodePlan, roles: Iterable[str]) -> tuple[str, ...]:
    """Return those of these roles that a node has, with their readers, in deploy order."""
    chosen = set(roles)
    reads = dict(READS)
    if plan.gpu is not None and plan.gpu.mig:
        reads["slurm_worker"] += ("gpu_settings",)
    chosen |= {role for role, read in reads.items() if chosen & set(read)}
    return tuple(role for role in plan.capabilities if role in chosen)
