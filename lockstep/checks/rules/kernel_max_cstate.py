"""Idle CPUs go no deeper than declared.

Why      A CPU in a deep idle state takes tens of microseconds to wake up: each message pays them.
Pending  The argument is in the boot loader's configuration: a reboot puts it in force.
Blind    States that the firmware enters by itself; limits of single states (cpuidle/state*).
"""

from lockstep.checks.rule import DEPLOY, REBOOT, Rule
from lockstep.checks.rules._boot import STARTED_SO, started_otherwise, waits

KEYS = ("processor.max_cstate", "intel_idle.max_cstate")

RULE = Rule(
    id="kernel.max_cstate",
    title="idle CPUs go no deeper than declared",
    reading="kernel.max_cstate",
    expected=lambda view: view.plan.hardware.hardware.kernel.max_cstate,
    show=lambda value: f"C{value}",
    pending=lambda view, device: waits(view, *KEYS),
    grounds=lambda view, device: started_otherwise(view, *KEYS),
    applies=lambda view: view.plan.hardware.hardware.kernel.max_cstate is not None,
    repair=f"{DEPLOY}, then {REBOOT}",
    owner="boot_loader",
    explained_by=STARTED_SO,
    source="kernel documentation, admin-guide/pm/intel_idle",
)
