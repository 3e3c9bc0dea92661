"""No board had an error of its memory that could not be corrected since it was last reset.

Why      The job that met it ended, or computed with a wrong value.
Blind    Errors before the last reset or reboot; corrected ones.
"""

from lockstep.checks.rule import REBOOT, Cause, Local, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_ecc

RULE = Rule(
    id="gpu.ecc_uncorrected",
    title="no uncorrected errors of the boards' memory",
    reading="gpu.ecc.uncorrected_volatile",
    devices=DEVICES,
    expected=lambda view: 0,
    show=lambda value: f"{value} errors" if value != 1 else "1 error",
    applies=has_ecc,
    local=Local.JOBS,
    repair=f"{REBOOT}; when they come back, have {{device}} replaced (dcgmi diag -r 3)",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.ecc", same_device=True, only_unread=True)),
    source="nvidia-smi --help-query-gpu, ecc.errors.uncorrected.volatile.total",
)
