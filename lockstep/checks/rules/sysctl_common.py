"""Kernel parameters that nobody declared are alike.

Why      A buffer, a watchdog or a congestion control that somebody tried on one node stays there.
Blind    Keys that are not on the list; declared ones are sysctl.running's.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL
from lockstep.report import Severity


def _look(view: View) -> Items:
    keys, declared = view.items("sysctl.common"), view.plan.sysctl
    return {key: value for key, value in keys.items() if key not in declared}


RULE = Rule(
    id="sysctl.common",
    title="undeclared kernel parameters are alike in a hardware class",
    reading="sysctl.common",
    look=_look,
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="declare {device} in os.sysctl, or on {node}: sysctl -w {device}='{expected}'",
    explained_by=OTHER_KERNEL,
    source="kernel documentation, admin-guide/sysctl, networking/ip-sysctl",
)
