"""All nodes of a hardware class swap, or none.

Why      A rank that is swapped out is a thousand times slower, and the job waits for it.
Blind    How much is swapped out.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.report import Severity

RULE = Rule(
    id="memory.swap",
    title="swap is alike in a hardware class",
    reading="memory.swap",
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: swapon --show; swapoff it and take it out of /etc/fstab, or add it",
    source="swapon(8), proc_swaps(5)",
)
