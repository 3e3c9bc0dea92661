"""Every RDMA port speaks the declared link layer.

Why      An adapter that came up as Ethernet in an InfiniBand fabric is reached by nobody.
Blind    What the switch at the other end is set to.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._rdma import DEVICES, UNREAD_WITH_COUNT, has_rdma, judged


def _expected(view: View) -> str:
    nics = view.plan.hardware.hardware.nics
    return "InfiniBand" if nics.rdma == "infiniband" else "Ethernet"


RULE = Rule(
    id="rdma.link_layer",
    title="the RDMA ports speak the declared link layer",
    reading="rdma.link_layer",
    devices=DEVICES,
    expected_each=lambda view: judged(view, "rdma.link_layer", _expected(view)),
    applies=has_rdma,
    repair="set the port type of {device} in {node} (mlxconfig -d {device} set LINK_TYPE_P1=1 for "
    "InfiniBand, 2 for Ethernet), then power-cycle the node",
    explained_by=UNREAD_WITH_COUNT,
    source="kernel documentation, ABI/stable/sysfs-class-infiniband",
)
