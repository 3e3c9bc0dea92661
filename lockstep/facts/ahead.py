"""What roles will ask of a node, by role: so that the first execution reads all of it.

Only what costs little and starts nothing is here. What loads a driver (nvidia-smi, before the
options of its module are written), or asks another machine, is read when a role asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lockstep.facts import cpu_sets
from lockstep.facts.boot import hugepages_state, hugetlb_mounts
from lockstep.facts.clock import clock_offset
from lockstep.facts.files import file_states
from lockstep.facts.kernel_files import kernel_files
from lockstep.facts.packages import package_state
from lockstep.facts.reading import Part, Question
from lockstep.facts.services import MANAGER, service_state
from lockstep.facts.settings import settings
from lockstep.files import paths
from lockstep.plan import NodePlan, fabric, software
from lockstep.plan.nvidia import CDI_REFRESH
from lockstep.plan.slurm_files import FETCHED

Ahead = Callable[[NodePlan], Iterable[Question[Any]]]


def _read_by_units(plan: NodePlan) -> tuple[str, ...]:
    """Return what the units of a node run and read at their start, beside the files of the plan."""
    return tuple(path for unit in software.all_units(plan) for path in unit.starts_with(plan))


BY_ROLE: Mapping[str, Ahead] = {
    "kernel": lambda plan: [
        kernel_files(
            tuple(file.path for file in (*plan.hardware.cpu_files, *plan.hardware.kernel_files))
        ),
    ],
    "rdma": lambda plan: [
        kernel_files(tuple(fabric.modules(plan.hardware.hardware.nics).values())),
    ],
    "cpu_sets": lambda plan: [cpu_sets.cpus_of_systemd(), cpu_sets.cpus_of_services()],
    "hugepages": lambda plan: [hugepages_state(), hugetlb_mounts(())],
    "time_sync": lambda plan: [clock_offset()],
    "container_runtime": lambda plan: [service_state(f"{CDI_REFRESH}.path")],
    "slurm_worker": lambda plan: [file_states((FETCHED,))],
    "": lambda plan: [
        file_states(paths(plan)),
        *(service_state(unit) for unit in (*plan.units, *plan.forbidden_units)),
        Question(
            "changes", ("files.changed",), bool, {"changed": (*paths(plan), *_read_by_units(plan))}
        ),
    ],
    "os_settings": lambda plan: [
        settings(plan.sysctl, plan.masked_units),
        service_state(MANAGER),
    ],
    "packages": lambda plan: [package_state(plan.packages)] if plan.packages else [],
}
"""Role -> what it asks of a node where it applies."""


def wanted(plan: object, roles: frozenset[str] | None = None) -> frozenset[Part]:
    """Return what the roles of a node will ask for; nothing without a plan.

    Args:
        plan: of the node, if its inventory has one.
        roles: those of this run; None: all.
    """
    if not isinstance(plan, NodePlan):
        return frozenset()
    return plan.once(f"ahead of {sorted(roles) if roles else 'all'}", lambda: _wanted(plan, roles))


def _wanted(plan: NodePlan, roles: frozenset[str] | None) -> frozenset[Part]:
    return frozenset(
        part
        for role, ahead in BY_ROLE.items()
        if not (role and roles) or role in roles
        for question in ahead(plan)
        for part in question.parts()
    )
