"""The CPUs weigh energy against speed alike.

Why      A CPU that was told to save energy clocks lower under the same governor.
Blind    CPUs whose driver has no such preference.
"""

from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, part
from lockstep.plan.running import GOVERNOR
from lockstep.report import Severity

RULE = Rule(
    id="cpu.energy_preference",
    title="one energy preference of the CPUs per hardware class",
    reading="cpu.frequency",
    look=part("cpu.frequency", "energy_preference"),
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: find what set energy_performance_preference (tuned, the firmware)",
    explained_by=(
        Cause("cpu.frequency_driver"),
        Cause("cpu.governor"),
        Cause("kernel.setting", device=GOVERNOR),
        *OTHER_KERNEL,
    ),
    source="kernel documentation, admin-guide/pm/intel_pstate",
)
