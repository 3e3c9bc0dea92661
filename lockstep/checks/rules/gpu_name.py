"""Every board is the declared model.

Why      One other board in a job sets the pace, or has too little memory for it.
Blind    Boards of one name with different firmware: gpu.vbios.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus

RULE = Rule(
    id="gpu.name",
    title="boards are the declared model",
    reading="gpu.name",
    devices=DEVICES,
    expected=lambda view: (
        view.plan.hardware.gpu_model.product_name if view.plan.hardware.gpu_model else None
    ),
    applies=has_gpus,
    repair="correct gpu.model of the hardware class, or have the board in {node} replaced",
    explained_by=UNREAD_WITH_COUNT,
    source="lockstep/catalog/gpus",
)
