"""No local file system runs out of inodes.

Why      With no inode left nothing new can be written, although the disk has space.
Blind    File systems that make inodes as they need them.
"""

from lockstep.checks.compare import number
from lockstep.checks.rule import Bound, Cause, Kind, Rule
from lockstep.report import Severity

RULE = Rule(
    id="storage.inodes",
    title="local file systems have inodes left",
    reading="storage.inodes",
    kind=Kind.ABSOLUTE,
    bound=Bound.AT_MOST,
    expected=lambda view: 90,
    show=lambda value: f"{number(value):g} % of the inodes taken",
    severity=Severity.WARNING,
    repair="on {node}: du -x --inodes -d2 {device}",
    explained_by=(Cause("storage.space", same_device=True),),
    source="statvfs(3); the proposal of node_exporter's own alerts",
)
