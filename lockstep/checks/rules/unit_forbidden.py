"""Units for hardware that a node does not have are off.

Why      A fabric manager without NVSwitches fails at every boot; one that runs where a class is
         declared without them says that the description or the machine is wrong.
Blind    The same program started by hand.
"""

from pydantic import JsonValue

from lockstep.checks.rule import Rule, Skip

OFF = "stopped and disabled"
RUNS = ("active", "activating", "reloading")
STARTS = ("enabled", "enabled-runtime")


def _state(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict):
        return entry
    if entry["active"] not in RUNS and entry["enabled"] not in STARTS:
        return OFF
    return f"{entry['active']} ({entry['sub']}), {entry['enabled'] or 'no unit file'}"


RULE = Rule(
    id="unit.forbidden",
    title="units without their hardware are off",
    reading="units",
    expected_each=lambda view: dict.fromkeys(view.plan.forbidden_units, OFF),
    pick=_state,
    applies=lambda view: bool(view.plan.forbidden_units),
    owner="nvidia_driver",
    source="NVIDIA fabric manager user guide; IMEX guide",
)
