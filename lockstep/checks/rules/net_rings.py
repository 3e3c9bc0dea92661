"""The interfaces queue the same number of frames.

Why      A short ring loses frames in bursts that its peers take.
Blind    Interrupt moderation, which drivers adapt by themselves.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._net import FOLLOWS_STATE, judged, which
from lockstep.checks.rules._peers import OTHER_KERNEL
from lockstep.report import Severity

RULE = Rule(
    id="net.rings",
    title="ring sizes are alike per network and hardware class",
    reading="net.rings",
    look=judged("net.rings"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    detail=which,
    repair="on {node}: ethtool -G the interface, and find what set it",
    explained_by=(*FOLLOWS_STATE, *OTHER_KERNEL),
    source="ethtool(8), -g",
)
