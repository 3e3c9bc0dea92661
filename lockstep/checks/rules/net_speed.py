"""The interfaces run at the same speed.

Why      A link that came up at a tenth of its speed works, slowly, and all wait for it.
Blind    A speed that is too low on all nodes.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._net import FOLLOWS_STATE, judged, which

RULE = Rule(
    id="net.speed",
    title="one speed per network and hardware class",
    reading="net.speed",
    look=judged("net.speed"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    detail=which,
    repair="in {node}: clean or replace cable and transceiver, look at the switch port",
    explained_by=(*FOLLOWS_STATE, Cause("rdma.rate")),
    source="kernel documentation, ABI/testing/sysfs-class-net (speed, duplex)",
)
