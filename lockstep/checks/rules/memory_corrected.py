"""Corrected memory errors do not pile up.

Why      A module that needs ever more corrections fails soon, and each one costs time.
Blind    Which module it is: the firmware's log says so. Machines without EDAC.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.report import Severity

RULE = Rule(
    id="memory.corrected",
    title="few corrected memory errors",
    reading="memory.corrected",
    kind=Kind.GROWTH,
    per_hour=10 / 24,
    show=lambda value: f"{value} corrected errors",
    severity=Severity.WARNING,
    repair="when {node} is idle: replace the module that ras-mc-ctl --errors names",
    explained_by=(Cause("memory.uncorrected", same_device=True),),
    source="EDAC (ce_count); ten in 24 hours are the threshold of mcelog.conf for a module",
)
