"""What the rules about units outside of the plan share."""

from __future__ import annotations

from lockstep.checks.context import Items, View


def not_planned(view: View, reading: str) -> Items:
    """Return the units of a list that the plan says nothing of."""
    units = view.read(reading)
    if not isinstance(units, list):
        return {"": units}
    plan = view.plan
    ours = {*plan.units, *plan.masked_units, *plan.forbidden_units}
    return {"": [unit for unit in units if unit not in ours]}
