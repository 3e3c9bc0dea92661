"""Names are looked up in the same places and order.

Why      A dead name server costs this node five seconds at each look-up.
Blind    Whether the servers answer; what a service configures for itself.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.report import Severity

RULE = Rule(
    id="os.resolver",
    title="names are resolved alike in a hardware class",
    reading="os.resolver",
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: make {device} of /etc/resolv.conf or nsswitch.conf like its peers'",
    source="resolv.conf(5), nsswitch.conf(5)",
)
