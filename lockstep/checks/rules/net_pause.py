"""The interfaces treat pause frames alike.

Why      An interface that sends them can stop a whole switch; one that ignores them loses frames.
Blind    Pause per priority (PFC): rdma.pfc sees that.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._net import FOLLOWS_STATE, judged, which
from lockstep.checks.rules._peers import OTHER_KERNEL
from lockstep.report import Severity

RULE = Rule(
    id="net.pause",
    title="pause frames are alike per network and hardware class",
    reading="net.pause",
    look=judged("net.pause"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    detail=which,
    repair="on {node}: ethtool -A the interface, and find what set it",
    explained_by=(*FOLLOWS_STATE, *OTHER_KERNEL),
    source="ethtool(8), -a",
)
