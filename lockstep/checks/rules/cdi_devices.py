"""The CDI specification gives every board to a container that asks for all.

Why      A container with seven of eight boards trains with seven, and nobody is told.
Blind    What an engine makes of it: container.devices (`lockstep check --containers`).
"""

import re

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._container import boards, has_cdi
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    seen = view.record.items("cdi.devices")
    if isinstance(seen, Unread):
        return {"": seen}
    listed = seen.get("all", [])
    if isinstance(listed, Unread) or not isinstance(listed, list):
        return {"": listed}
    # The toolkit adds what the boards have below /dev/dri.
    return {"": [path for path in listed if re.fullmatch(r"/dev/nvidia\d+", str(path))]}


RULE = Rule(
    id="cdi.devices",
    title="CDI gives containers every board",
    reading="cdi.devices",
    look=_look,
    expected=boards,
    # Divided boards are given to containers slice by slice.
    applies=lambda view: has_cdi(view) and not (view.plan.gpu and view.plan.gpu.mig),
    owner="container_runtime",
    explained_by=(Cause("gpu.count"),),
    source="CNCF container-device-interface, SPEC.md; nvidia-ctk cdi generate",
)
