"""Every RDMA port is active.

Why      A port that is down takes its rail from every job on the node.
Blind    A link that comes and goes between two checks.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Local, Rule
from lockstep.checks.rules._rdma import (
    DEVICES,
    UNREAD_WITH_COUNT,
    has_rdma,
    judged,
    named,
    of_the_fabric,
)
from lockstep.node.check.judge import Judgement
from lockstep.probe.record import MISSING, Unread


def _look(view: View) -> Items:
    physical = view.items("rdma.phys_state")
    items: Items = {}
    for port, state in of_the_fabric(view, "rdma.state").items():
        link = physical.get(port, MISSING)
        if isinstance(state, Unread) or state == "ACTIVE":
            items[port] = state
        else:
            items[port] = str(state) if isinstance(link, Unread) else f"{state} ({link})"
    return items


RULE = Rule(
    id="rdma.port_state",
    title="the RDMA ports are active",
    reading="rdma.state",
    look=_look,
    devices=DEVICES,
    expected_each=lambda view: judged(view, "rdma.state", "ACTIVE"),
    applies=has_rdma,
    local=Local.JOBS,
    on_node=lambda view: [Judgement(("rdma.state",), only=named(view), expected="ACTIVE")],
    repair="on {node}: cable and switch port of {device}; InfiniBand: a subnet manager; Ethernet: "
    "ip link set up its interface",
    explained_by=(*UNREAD_WITH_COUNT, Cause("rdma.link_layer", same_device=True)),
    source="kernel documentation, ABI/stable/sysfs-class-infiniband",
)
