"""The CPUs that the scheduler leaves alone are the planned ones.

Why      A CPU that is cut off from load balancing and not planned so is idle while threads queue;
         one that should be cut off shares its core with whatever the kernel puts there.
Pending  The argument is in the boot loader's configuration: a reboot puts it in force.
Blind    What runs on an isolated CPU because it was bound there.
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
    id="cpu.isolated",
    title="the planned CPUs are out of load balancing",
    reading="cpu.isolated",
    expected=lambda view: planned_cpus(view, "domain"),
    show=lambda value: f"CPUs {value}" if value else "no CPUs",
    pending=lambda view, device: waits(view, "isolcpus"),
    grounds=lambda view, device: started_otherwise(view, "isolcpus"),
    applies=own_kernel,
    repair=f"{DEPLOY}, then {REBOOT}",
    owner="boot_loader",
    explained_by=STARTED_SO,
    source="kernel documentation, admin-guide/kernel-parameters (isolcpus=)",
)
