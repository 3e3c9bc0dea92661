"""The interfaces have the same queueing discipline.

Why      Another discipline delays or shapes what the peers send at once.
Blind    Settings of the discipline; classes and filters.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._net import FOLLOWS_STATE, judged, which
from lockstep.checks.rules._peers import OTHER_KERNEL
from lockstep.report import Severity

RULE = Rule(
    id="net.queue",
    title="one queueing discipline per network and hardware class",
    reading="net.queue",
    look=judged("net.queue"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    detail=which,
    repair="on {node}: tc qdisc show; find what set it (net.core.default_qdisc, a script)",
    explained_by=(
        *FOLLOWS_STATE,
        Cause("sysctl.common", device="net.core.default_qdisc"),
        *OTHER_KERNEL,
    ),
    source="tc(8), ip-link(8) (txqueuelen)",
)
