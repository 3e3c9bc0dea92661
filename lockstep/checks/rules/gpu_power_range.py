"""Every board takes the power limits of its model.

Why      Other firmware lowers the most that can be asked for: the planned limit is then refused.
Blind    A limit within the range that is too low.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    asks,
    both,
    same_board,
    supported,
)

LEAST, MOST = "gpu.power.min_w", "gpu.power.max_w"


def _text(least: object, most: object) -> str:
    return f"{least:g} to {most:g} W"


def _look(view: View) -> Items:
    return both(view, LEAST, MOST, _text)


def _of_model(view: View) -> str | None:
    model = view.plan.hardware.gpu_model
    return None if model is None else _text(*model.power_limits_w)


RULE = Rule(
    id="gpu.power_range",
    title="boards take their model's power limits",
    reading=MOST,
    look=_look,
    devices=DEVICES,
    pick=supported,
    expected=_of_model,
    peers=Peers.CLASS,
    applies=asks(LEAST, MOST),
    repair="compare the firmware (gpu.vbios) and part number of the board in {node} with its peers",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.power_default", "gpu.name")),
    source="lockstep/catalog/gpus; nvidia-smi --help-query-gpu, power.min_limit, power.max_limit",
)
