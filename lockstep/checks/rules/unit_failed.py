"""No unit failed, whoever started it.

Why      A mount, a timer or a daemon of the site that failed on one node is missed by its jobs.
Blind    Units that fail and are started again in time; planned units are unit.active's.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._units import not_planned
from lockstep.report import Severity

RULE = Rule(
    id="unit.failed",
    title="no unit failed",
    reading="units.failed",
    look=lambda view: not_planned(view, "units.failed"),
    expected=lambda view: [],
    severity=Severity.WARNING,
    repair="on {node}: systemctl status of it, then mend it and systemctl reset-failed",
    source="systemctl(1), list-units --state=failed",
)
