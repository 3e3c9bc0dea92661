"""The clocks of the CPUs have the same limits.

Why      A limit that somebody left behind caps a node for good, whatever its governor.
Blind    Limits of the firmware; clocks under load.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_MACHINE, part

RULE = Rule(
    id="cpu.frequency_limits",
    title="limits of the CPU clocks are alike in a hardware class",
    reading="cpu.frequency",
    look=part("cpu.frequency", "lowest", "highest"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    repair="on {node}: find what wrote scaling_min_freq or scaling_max_freq (tuned, cpupower)",
    explained_by=(Cause("cpu.frequency_driver"), Cause("cpu.boost"), *OTHER_MACHINE),
    source="kernel documentation, admin-guide/pm/cpufreq",
)
