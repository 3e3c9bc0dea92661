"""The kernel treats each weakness of the CPUs alike.

Why      What is done against a weakness costs speed: one node without it, or with more, is uneven.
Blind    Weaknesses that this kernel does not know.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE
from lockstep.report import Severity

RULE = Rule(
    id="cpu.mitigations",
    title="mitigations are alike in a hardware class",
    reading="cpu.mitigations",
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: compare mitigations= on the kernel command line and the microcode",
    explained_by=(Cause("cpu.microcode"), Cause("cpu.smt"), *OTHER_KERNEL, *OTHER_MACHINE),
    source="kernel documentation, admin-guide/hw-vuln",
)
