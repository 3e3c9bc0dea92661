"""Every board's own default power limit is the one of its model.

Why      Other firmware, or a board of another variant: gpu.power_limit trusts this default.
Blind    A limit that is equal to the catalogue and not reached.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus, watts

RULE = Rule(
    id="gpu.power_default",
    title="boards have their model's default power limit",
    reading="gpu.power.default_w",
    devices=DEVICES,
    expected=lambda view: (
        view.plan.hardware.gpu_model.default_power_limit_w if view.plan.hardware.gpu_model else None
    ),
    peers=Peers.CLASS,
    show=watts,
    applies=has_gpus,
    repair="compare the firmware (gpu.vbios) and part number of the board in {node} with its peers",
    explained_by=UNREAD_WITH_COUNT,
    source="lockstep/catalog/gpus",
)
