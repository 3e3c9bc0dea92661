"""Every node has the memory of its hardware class, at least.

Why      A module that failed at boot is silent; Slurm then drains the node or jobs are killed.
Blind    Slower modules of the same size; errors that are corrected.
"""

from lockstep.checks.rule import Cause, Kind, Local, Rule

RULE = Rule(
    id="memory.at_least",
    title="the memory of the hardware class is there",
    reading="memory_mib",
    kind=Kind.ABSOLUTE,
    expected=lambda view: view.plan.hardware.hardware.memory_mib,
    show=lambda value: f"{value} MiB",
    local=Local.HEALTH,
    repair="check {node}: dmidecode -t memory, the firmware's log; reseat or replace a module",
    explained_by=(Cause("memory.modules"),),
    source="proc_meminfo(5)",
)
