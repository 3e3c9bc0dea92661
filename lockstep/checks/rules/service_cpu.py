"""No service takes more than a fifth of a CPU.

Why      What runs beside the jobs takes time from them, and one core that is late is felt by all
         ranks.
Blind    Programs outside of services; services of jobs; those younger than ten minutes, and what
         one did lately after a long quiet time. Machines without control groups v2.
"""

from lockstep.checks.compare import number
from lockstep.checks.context import Items, View
from lockstep.checks.rule import Bound, Kind, Rule
from lockstep.checks.rules._peers import worker
from lockstep.report import Severity


def _look(view: View) -> Items:
    services = view.items("services.cpu_share")
    return {unit: value for unit, value in services.items() if unit not in view.plan.job_parents}


RULE = Rule(
    id="service.cpu",
    title="services take little CPU time",
    reading="services.cpu_share",
    look=_look,
    kind=Kind.ABSOLUTE,
    bound=Bound.AT_MOST,
    expected=lambda view: 20,
    show=lambda value: f"{number(value):g} % of a CPU",
    severity=Severity.WARNING,
    applies=worker,
    repair="on {node}: systemd-cgtop, then what {device} does so often",
    source="kernel documentation, admin-guide/cgroup-v2 (cpu.stat)",
)
