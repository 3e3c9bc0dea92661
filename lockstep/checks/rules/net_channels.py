"""The interfaces have the same number of queues.

Why      With fewer queues fewer CPUs take packets, and one of them becomes the limit.
Blind    Which CPUs serve them: irq.affinity sees that.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._net import FOLLOWS_STATE, judged, which
from lockstep.checks.rules._peers import OTHER_KERNEL
from lockstep.report import Severity

RULE = Rule(
    id="net.channels",
    title="numbers of queues are alike per network and hardware class",
    reading="net.channels",
    look=judged("net.channels"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    detail=which,
    repair="on {node}: ethtool -L the interface, and find what set it",
    explained_by=(*FOLLOWS_STATE, Cause("cpu.count"), *OTHER_KERNEL),
    source="ethtool(8), -l",
)
