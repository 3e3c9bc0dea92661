"""Each kind of collector runs once, and no nvidia-smi in a loop.

Why      Two collectors ask the boards twice; their profiling counters exclude each other.
Blind    Collectors in programs of another name; metrics that a job reads for itself.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Bound, Kind, Rule
from lockstep.report import Severity

MOST = {"nv-hostengine": 1, "dcgm-exporter": 1, "node_exporter": 1, "nvidia-smi": 0}


def _look(view: View) -> Items:
    return {
        name: len(lines) if isinstance(lines, list) else lines
        for name, lines in view.items("collectors").items()
    }


RULE = Rule(
    id="collector.single",
    title="each collector runs once",
    reading="collectors",
    look=_look,
    kind=Kind.ABSOLUTE,
    bound=Bound.AT_MOST,
    expected_each=lambda view: dict(MOST),
    show=lambda value: f"{value} running",
    severity=Severity.WARNING,
    repair="on {node}: ps -C {device} -o pid,ppid,lstart,args; end the one that no unit started",
    source="DCGM documentation, profiling: one client at a time",
)
