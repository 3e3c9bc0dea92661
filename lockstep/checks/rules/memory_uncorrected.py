"""No memory error that could not be corrected since boot.

Why      The program that met it ended, or computed with a wrong value.
Blind    Machines without a driver of their memory controllers (EDAC): they count nothing.
"""

from lockstep.checks.rule import Rule

RULE = Rule(
    id="memory.uncorrected",
    title="no uncorrected memory errors",
    reading="memory.uncorrected",
    expected=lambda view: 0,
    show=lambda value: f"{value} uncorrected errors",
    repair="drain {node}; replace the module that ras-mc-ctl --errors or the firmware's log names",
    source="kernel documentation, driver-api/edac; ABI/testing/sysfs-devices-edac (ue_count)",
)
