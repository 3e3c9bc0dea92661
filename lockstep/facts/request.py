"""What to look at on each node: the names that its plan mentions, none of its values."""

from __future__ import annotations

from lockstep.files import paths
from lockstep.plan import NodePlan
from lockstep.probe.ship import Request


def request(plan: NodePlan) -> Request:
    """Return the request for one node."""
    hardware = plan.hardware
    return Request(
        files=paths(plan),
        units=(*plan.units, *plan.masked_units),
        sysctls=tuple(plan.sysctl),
        kernel_files=tuple(file.path for file in (*hardware.cpu_files, *hardware.kernel_files)),
        listeners=tuple(f"{one.protocol}/{one.port}" for one in plan.listeners),
    )
