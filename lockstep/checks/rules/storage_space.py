"""No local file system is nearly full.

Why      A full disk ends jobs, loses logs and stops services, mostly at night.
Blind    Shared file systems: asking them could hang.
"""

from lockstep.checks.compare import number
from lockstep.checks.rule import Bound, Kind, Rule
from lockstep.report import Severity

RULE = Rule(
    id="storage.space",
    title="local file systems have space left",
    reading="storage.space",
    kind=Kind.ABSOLUTE,
    bound=Bound.AT_MOST,
    expected=lambda view: 90,
    show=lambda value: f"{number(value):g} % full",
    severity=Severity.WARNING,
    repair="on {node}: du -xh -d2 {device}",
    source="statvfs(3); the proposal of node_exporter's own alerts",
)
