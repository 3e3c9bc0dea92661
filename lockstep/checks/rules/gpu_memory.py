"""Every board has the memory of its model.

Why      A board of the same name with less memory ends a job that fits on all the others.
Blind    Memory that is there and gives errors; memory that another process holds.
"""

from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus

RULE = Rule(
    id="gpu.memory",
    title="boards have their model's memory",
    reading="gpu.memory.total_mib",
    devices=DEVICES,
    expected=lambda view: (
        view.plan.hardware.gpu_model.memory_mib if view.plan.hardware.gpu_model else None
    ),
    show=lambda value: f"{value} MiB",
    applies=has_gpus,
    repair="compare the part number and firmware (gpu.vbios) of the board in {node} with its peers",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.name", same_device=True)),
    source="lockstep/catalog/gpus",
)
