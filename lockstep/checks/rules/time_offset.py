"""The clock is close to its servers.

Why      Times of one job on many nodes are compared: logs, traces, accounting.
Blind    As time.synchronised: servers that are wrong together, and the reference itself.
"""

from pydantic import JsonValue

from lockstep.checks.compare import number
from lockstep.checks.rule import Bound, Cause, Kind, Rule
from lockstep.checks.rules.time_synchronised import follows


def _milliseconds(value: JsonValue) -> str:
    return f"{number(value) * 1000:.3g} ms"


RULE = Rule(
    id="time.offset",
    title="the clock is close to its servers",
    reading="time.offset_s",
    kind=Kind.ABSOLUTE,
    bound=Bound.AT_MOST,
    pick=lambda value: abs(number(value)),
    expected=lambda view: view.plan.spec.time.max_offset_s,
    show=_milliseconds,
    applies=follows,
    owner="time_sync",
    repair="on {node}: chronyc sources; chronyc makestep once the node is idle",
    explained_by=(
        Cause("time.synchronised"),
        Cause("unit.active", device="chrony.service"),
        Cause("file.content", device="/etc/chrony/chrony.conf"),
    ),
    source="chronyc(1), tracking: system time",
)
