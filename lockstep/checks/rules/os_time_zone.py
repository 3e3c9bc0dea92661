"""All nodes are in the declared time zone.

Why      Logs of one job on many nodes are read side by side.
Blind    A zone set by TZ in the environment of a service.
"""

from lockstep.checks.rule import Rule
from lockstep.report import Severity

RULE = Rule(
    id="os.time_zone",
    title="the time zone is the declared one",
    reading="os.time_zone",
    expected=lambda view: view.plan.spec.os.time_zone,
    severity=Severity.WARNING,
    owner="os_settings",
    source="localtime(5)",
)
