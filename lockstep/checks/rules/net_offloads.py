"""The interfaces take the same work from the CPU.

Why      Without checksums and segmentation in hardware a core is the limit of the link.
Blind    Offloads beyond the six that every driver knows.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._net import FOLLOWS_STATE, judged, which
from lockstep.checks.rules._peers import OTHER_KERNEL
from lockstep.report import Severity

RULE = Rule(
    id="net.offloads",
    title="offloads are alike per network and hardware class",
    reading="net.offloads",
    look=judged("net.offloads"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    detail=which,
    repair="on {node}: ethtool -K the interface, and find what set it",
    explained_by=(*FOLLOWS_STATE, *OTHER_KERNEL),
    source="ethtool(8), -k",
)
