"""The CPUs without a timer tick are the planned ones.

Why      A tick on a job's CPU interrupts it hundreds of times a second; a CPU without one that
         nobody planned counts time at a cost for each system call.
Pending  The argument is in the boot loader's configuration: a reboot puts it in force.
Blind    Ticks that stay because more than one thread runs there.
"""

from lockstep.checks.rule import DEPLOY, REBOOT, Rule
from lockstep.checks.rules._boot import (
    STARTED_SO,
    own_kernel,
    planned_cpus,
    started_otherwise,
    waits,
)

RULE = Rule(
    id="cpu.nohz_full",
    title="the planned CPUs run without a tick",
    reading="cpu.nohz_full",
    expected=lambda view: planned_cpus(view, "nohz_full"),
    show=lambda value: f"CPUs {value}" if value else "no CPUs",
    pending=lambda view, device: waits(view, "nohz_full"),
    grounds=lambda view, device: started_otherwise(view, "nohz_full"),
    applies=own_kernel,
    repair=f"{DEPLOY}, then {REBOOT}",
    owner="boot_loader",
    explained_by=STARTED_SO,
    source="kernel documentation, timers/no_hz",
)
