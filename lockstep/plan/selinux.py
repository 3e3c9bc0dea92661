"""SELinux on a node: the mode, and what the policy needs besides its packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.catalog import selinux as catalog
from lockstep.catalog.selinux import GDRCOPY_MODULE as GDRCOPY_MODULE
from lockstep.catalog.selinux import GDRCOPY_SOURCE as GDRCOPY_SOURCE
from lockstep.catalog.selinux import GPU_BOOLEAN as GPU_BOOLEAN
from lockstep.catalog.selinux import POLICY as POLICY
from lockstep.catalog.selinux import RDMA_MODULE as RDMA_MODULE
from lockstep.catalog.selinux import RDMA_SOURCE as RDMA_SOURCE

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan


@dataclass(frozen=True)
class SelinuxPlan:
    """What Lockstep keeps of a node's SELinux; everything is empty if it keeps nothing."""

    mode: str = ""
    """``enforcing`` or ``permissive``."""
    modules: tuple[str, ...] = ()
    """Policy modules that Lockstep knows, loaded or not."""
    loaded: Mapping[str, str] = field(default_factory=dict)
    """Module that must be loaded -> the path of its source."""
    booleans: tuple[str, ...] = ()
    """Booleans that must be on."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Path -> the type of its label."""


def plan(node: NodePlan) -> SelinuxPlan:
    """Return what Lockstep keeps of a node's SELinux."""
    if "selinux" not in node.roles or node.spec.os.selinux is None:
        return SelinuxPlan()
    return SelinuxPlan(
        mode=node.spec.os.selinux,
        modules=catalog.MODULES,
        loaded=modules(node),
        booleans=(GPU_BOOLEAN,) if confines(node) and node.gpu else (),
        labels=_labels(node),
    )


def confines(node: NodePlan) -> bool:
    """Return whether a node has an engine whose containers SELinux confines."""
    engines = node.spec.software.containers.engines
    return node.is_worker and bool(catalog.CONFINING_ENGINES.intersection(engines))


def modules(node: NodePlan) -> dict[str, str]:
    """Return the modules that a node needs, with the path of each one's source."""
    if not confines(node):
        return {}
    has_rdma = node.hardware.hardware.nics.rdma != "none"
    return {
        **({GDRCOPY_MODULE: GDRCOPY_SOURCE} if _has_gdrcopy(node) else {}),
        **({RDMA_MODULE: RDMA_SOURCE} if has_rdma else {}),
    }


def _has_gdrcopy(node: NodePlan) -> bool:
    stack = node.spec.software.nvidia
    return node.gpu is not None and stack is not None and stack.gdrcopy is not None


def _labels(node: NodePlan) -> dict[str, str]:
    devices = catalog.GDRCOPY_LABELS if GDRCOPY_MODULE in modules(node) else {}
    if node.spec.slurm is None:
        return dict(devices)
    programs = {
        unit.program: catalog.BIN
        for role in catalog.DAEMONS
        if role in node.roles
        for unit in node.roles[role].units
        # MariaDB has a domain of its own.
        if unit.program.startswith("/usr/sbin/")
    }
    return {**catalog.MUNGE, **catalog.SLURM, **programs, **devices}
