"""The CDI specification gives every board to a container that asks for all.

Why      A container with seven of eight boards trains with seven, and nobody is told.
Blind    What an engine makes of it: container.devices (`lockstep check --containers`).
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._container import REFRESH, boards, has_cdi
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    seen = view.record.items("cdi.devices")
    if isinstance(seen, Unread):
        return {"": seen}
    return {"": seen.get("all", [])}


RULE = Rule(
    id="cdi.devices",
    title="CDI gives containers every board",
    reading="cdi.devices",
    look=_look,
    expected=boards,
    applies=has_cdi,
    repair=REFRESH,
    owner="container_runtime",
    explained_by=(Cause("gpu.count"),),
    source="CNCF container-device-interface, SPEC.md; nvidia-ctk cdi generate",
)
