"""What the rules about adapters that speak RoCE share."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import Cause
from lockstep.checks.rules._rdma import UNREAD_WITH_COUNT, has_rdma, of_the_fabric

ACCELERATION = "rdma.acceleration"
"""The register ROCE_ACCL of each adapter; empty where no tool could ask for it."""
ADAPTIVE_ROUTING = "adaptive_routing_forced_en"
NOT_ASKED = "not asked: no mlxreg or mstreg, or an adapter without the register"

FOLLOWS_PORT = (
    *UNREAD_WITH_COUNT,
    Cause("rdma.link_layer", same_device=True),
    Cause("rdma.port_state", same_device=True),
)


def has_roce(view: View) -> bool:
    """Apply to the nodes whose fabric is Ethernet."""
    return has_rdma(view) and view.plan.hardware.hardware.nics.rdma == "roce"


def of_register(view: View, shown: Callable[[dict[str, JsonValue]], Value]) -> Items:
    """Return what is shown of the register ROCE_ACCL of each adapter of the fabric."""
    return {
        device: shown(fields) if isinstance(fields, dict) else fields
        for device, fields in of_the_fabric(view, ACCELERATION).items()
    }
