"""Every node has the GPUs of its hardware class.

Why      A node that lost a board still takes jobs for eight, or runs them on seven.
Blind    A board that is listed and does not work.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import has_gpus

RULE = Rule(
    id="gpu.count",
    title="all GPUs of the hardware class answer",
    reading="gpu.count",
    expected=lambda view: (
        view.plan.hardware.hardware.gpu.count if view.plan.hardware.hardware.gpu else None
    ),
    show=lambda value: f"{value} GPUs" if value != 1 else "1 GPU",
    applies=has_gpus,
    repair="drain {node}, look for Xid errors (journalctl -k -g Xid), power-cycle it; "
    "a board that stays away is reseated or replaced",
    source="nvidia-smi(1); Xid 79: the GPU has fallen off the bus",
)
