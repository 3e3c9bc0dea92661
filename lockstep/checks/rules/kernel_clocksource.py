"""The kernel reads the time from the same source.

Why      A kernel that lost its trust in the TSC takes a timer that is a hundred times slower: each
         reading of the clock costs a microsecond.
Blind    A source that is slow on all nodes.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, part

SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

RULE = Rule(
    id="kernel.clocksource",
    title="one clock source per hardware class",
    reading="kernel.state",
    look=part("kernel.state", SOURCE),
    peers=Peers.CLASS,
    repair="on {node}: journalctl -k -g tsc says why; compare the BIOS and tsc= on the command "
    "line, then reboot it",
    explained_by=OTHER_KERNEL,
    source="kernel documentation, timers/timekeeping",
)
