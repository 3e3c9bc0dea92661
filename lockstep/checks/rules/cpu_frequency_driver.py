"""One driver sets the clocks of the CPUs.

Why      Another driver has other governors and other limits: the same words mean other clocks.
Blind    Clocks that the firmware sets by itself: no driver at all, on all nodes alike.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE, part
from lockstep.report import Severity

RULE = Rule(
    id="cpu.frequency_driver",
    title="one driver of the CPU clocks per hardware class",
    reading="cpu.frequency",
    look=part("cpu.frequency", "driver"),
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: compare the firmware's power settings and intel_pstate= or amd_pstate= on "
    "the kernel command line",
    explained_by=(*OTHER_KERNEL, *OTHER_MACHINE),
    source="kernel documentation, admin-guide/pm/cpufreq",
)
