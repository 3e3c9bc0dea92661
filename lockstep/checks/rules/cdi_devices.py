"""The CDI specification gives every board to a container that asks for all.

Divided  boards (MIG) go to containers device by device, "0:1" for the second of the first board.
Why      A container with seven of eight boards trains with seven, and nobody is told.
Blind    What an engine makes of it: container.devices (`lockstep check --containers`).
"""

import re

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._container import boards, has_cdi
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    seen = view.record.items("cdi.devices")
    if isinstance(seen, Unread):
        return {"": seen}
    if view.plan.gpu and view.plan.gpu.mig:
        return {"": [name for name in sorted(seen) if re.fullmatch(r"\d+:\d+", name)]}
    listed = seen.get("all", [])
    if isinstance(listed, Unread) or not isinstance(listed, list):
        return {"": listed}
    # The toolkit adds what the boards have below /dev/dri.
    return {"": [path for path in listed if re.fullmatch(r"/dev/nvidia\d+", str(path))]}


def _expected(view: View) -> JsonValue:
    gpu = view.plan.gpu
    if gpu is None or not gpu.mig:
        return boards(view)
    names = (f"{board}:{n}" for board in range(gpu.count) for n in range(len(gpu.mig)))
    return list[JsonValue](sorted(names))


RULE = Rule(
    id="cdi.devices",
    title="CDI gives containers every board",
    reading="cdi.devices",
    look=_look,
    expected=_expected,
    applies=has_cdi,
    owner="container_runtime",
    explained_by=(Cause("gpu.count"), Cause("gpu.mig"), Cause("gpu.mig_layout")),
    source="CNCF container-device-interface, SPEC.md; nvidia-ctk cdi generate, "
    "device-name-strategy index",
)
