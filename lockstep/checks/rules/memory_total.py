"""No node has less memory than its peers.

Why      One module of many that failed is less than what memory.at_least leaves room for.
Blind    A module that failed on most nodes; what the kernel keeps for itself, up to one percent.
"""

from lockstep.checks.compare import number
from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL

RULE = Rule(
    id="memory.total",
    title="as much memory as the peers",
    reading="memory_mib",
    kind=Kind.WITHIN,
    peers=Peers.CLASS,
    tolerance=0.01,
    show=lambda value: f"{number(value):.0f} MiB",
    repair="check {node}: dmidecode -t memory, the firmware's log; reseat or replace a module",
    explained_by=(Cause("memory.at_least"), Cause("memory.modules"), *OTHER_KERNEL),
    source="proc_meminfo(5)",
)
