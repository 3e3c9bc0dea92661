"""The interfaces have the same driver and firmware.

Why      Firmware of network cards has faults of its own, and one node then has them alone.
Blind    The driver's version: kernel.release and rdma.driver see that.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._net import FOLLOWS_STATE, judged, which
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE
from lockstep.report import Severity

RULE = Rule(
    id="net.driver",
    title="one driver and firmware per network and hardware class",
    reading="net.driver",
    look=judged("net.driver"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    detail=which,
    repair="have the firmware of the peers ({expected}) flashed in {node}, then reset the card",
    explained_by=(*FOLLOWS_STATE, Cause("rdma.firmware"), *OTHER_KERNEL, *OTHER_MACHINE),
    source="ethtool(8), -i",
)
