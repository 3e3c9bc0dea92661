"""All CPUs of a hardware class have one governor.

Why      A CPU that must be asked before it clocks up delays its rank, and all ranks wait.
Blind    What the firmware makes of it.
"""

from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, part
from lockstep.plan.running import GOVERNOR

RULE = Rule(
    id="cpu.governor",
    title="one governor of the CPU clocks per hardware class",
    reading="cpu.frequency",
    look=part("cpu.frequency", "governor"),
    peers=Peers.CLASS,
    repair="declare kernel.cpu_governor of the hardware class; on {node}: find what set it (tuned, "
    "cpupower)",
    explained_by=(
        Cause("kernel.setting", device=GOVERNOR),
        Cause("cpu.frequency_driver"),
        *OTHER_KERNEL,
    ),
    source="kernel documentation, admin-guide/pm/cpufreq",
)
