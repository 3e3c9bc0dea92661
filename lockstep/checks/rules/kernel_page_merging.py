"""The kernel merges equal pages alike (KSM).

Why      The thread that searches for equal pages takes CPU time and cache from the job.
Blind    How much it merges.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, part
from lockstep.report import Severity

RULE = Rule(
    id="kernel.page_merging",
    title="page merging is alike in a hardware class",
    reading="kernel.state",
    look=part("kernel.state", "/sys/kernel/mm/ksm/run"),
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: find what wrote {device} (ksmtuned)",
    explained_by=OTHER_KERNEL,
    source="kernel documentation, admin-guide/mm/ksm",
)
