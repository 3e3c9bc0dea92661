"""The kernel's buffer tells of no fault.

Why      Hung tasks, lock-ups and errors of disks and links come hours before a node goes down.
Blind    What the buffer no longer holds: it is a ring. Faults in other words than these.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.report import Severity

RULE = Rule(
    id="kernel.log",
    title="no fault in the kernel's buffer",
    reading="kernel.log",
    expected=lambda view: 0,
    words=lambda found, expected: (f"{found} messages", "none"),
    severity=Severity.WARNING,
    applies=own_kernel,
    repair="on {node}: dmesg -T shows them; it stays a finding until the next boot",
    source="kernel sources: hung_task.c, watchdog.c, rcu/tree_stall.h, pcie/aer.c, sch_generic.c",
)
