"""Every unit of the plan starts at boot.

Why      A node that works today and not after a reboot is found at the worst moment.
Blind    An order of start that fails only at boot.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Rule, Skip
from lockstep.plan import owners

STARTS = ("enabled", "static", "alias", "generated", "indirect")


def _expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.units, "enabled")


def _state(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict):
        return entry
    return "enabled" if entry["enabled"] in STARTS else entry["enabled"] or "no unit file"


RULE = Rule(
    id="unit.enabled",
    title="planned units start at boot",
    reading="units",
    expected_each=_expected,
    pick=_state,
    owner="the role of the unit",
    roles=lambda view, unit: owners.of_unit(view.plan, unit),
    explained_by=(Cause("unit.active", same_device=True),),
    source="systemctl(1)",
)
