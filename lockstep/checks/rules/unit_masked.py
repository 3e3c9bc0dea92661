"""Units that would change the node behind our back are masked.

Why      An upgrade nobody asked for breaks the version lock on some nodes and not on others.
Blind    Other ways to start an upgrade: a person, cron, a management agent.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Rule, Skip
from lockstep.plan.software import MASKED_UNITS


def _expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(MASKED_UNITS, "masked")


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
    title="automatic upgrades are masked",
    reading="units",
    expected_each=_expected,
    pick=_state,
    applies=lambda view: not view.plan.spec.os.automatic_upgrades,
    owner="packages",
    source="apt.systemd.daily(8)",
)
