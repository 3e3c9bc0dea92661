"""Units that would change the node behind our back are masked.

Why      An upgrade nobody asked for breaks the version lock on some nodes and not on others;
         irqbalance moves interrupts onto the CPUs of jobs.
Blind    Other ways to start an upgrade: a person, cron, a management agent.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Rule, Skip


def _expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.masked_units, "masked")


def _state(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict):
        return entry
    if entry["load"] == "masked":
        return "masked"
    if entry["enabled"] == "masked":
        return "masked on disk only (no daemon-reload yet)"
    return entry["enabled"] or entry["load"]


RULE = Rule(
    id="unit.masked",
    title="units that would change the node are masked",
    reading="units",
    expected_each=_expected,
    pick=_state,
    applies=lambda view: bool(view.plan.masked_units),
    owner="os_settings",
    source="apt.systemd.daily(8)",
)
