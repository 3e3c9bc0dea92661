"""What to look at on each node: the names that its plan mentions, none of its values."""

from __future__ import annotations

from lockstep.files import paths
from lockstep.plan import NodePlan
from lockstep.plan.software import MASKED_UNITS
from lockstep.probe.ship import Request


def request(plan: NodePlan) -> Request:
    """Return the request for one node."""
    return Request(
        files=paths(plan),
        units=(*plan.units, *MASKED_UNITS),
        sysctls=tuple(plan.spec.os.sysctl),
    )
