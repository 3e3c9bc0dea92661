"""The interfaces of the node's networks are up.

Why      A rail that is down takes its bandwidth from every job on the node.
Blind    Interfaces that neither the description names nor a planned address leads to.
"""

from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._net import UNREAD, judged, which

RULE = Rule(
    id="net.state",
    title="network interfaces are up",
    reading="net.state",
    look=judged("net.state"),
    pick=lambda state: "UP" if state == "UNKNOWN" else state,
    expected=lambda view: "UP",
    detail=which,
    repair="on {node}: ip link set up it; then cable, transceiver and switch port",
    explained_by=(
        *UNREAD,
        Cause("rdma.port_state", same_device=True),
        Cause("rdma.port_state", says="DOWN"),
    ),
    source="ip-link(8), operstate; interfaces without a link of their own say UNKNOWN",
)
