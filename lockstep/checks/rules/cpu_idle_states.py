"""The idle states of the CPUs are enabled alike.

Why      A deep state that only one node may enter costs it tens of microseconds at each wake-up.
Blind    A state that only some nodes have; what the firmware does below the states.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE
from lockstep.report import Severity

RULE = Rule(
    id="cpu.idle_states",
    title="idle states are alike in a hardware class",
    reading="cpu.idle_states",
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: find what wrote cpuidle/state*/disable (tuned, cpupower idle-set)",
    explained_by=(Cause("kernel.max_cstate"), *OTHER_KERNEL, *OTHER_MACHINE),
    source="kernel documentation, admin-guide/pm/cpuidle",
)
