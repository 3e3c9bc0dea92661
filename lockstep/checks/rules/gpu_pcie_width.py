"""Every board's link has all its lanes.

Why      A board that is badly seated trains with half its lanes: it computes as fast as ever,
         is fed at half the speed, and the whole job waits for it.
Blind    Lanes that give errors; a slot with fewer lanes than the board, which the driver counts as
         the most that is possible: gpu.pcie_width_max compares it with the peers.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus, same_board, up_to

READING, MOST = "gpu.pcie.width_current", "gpu.pcie.width_max"

RULE = Rule(
    id="gpu.pcie_width",
    title="boards' links have all their lanes",
    reading=READING,
    look=up_to(READING, MOST),
    devices=DEVICES,
    device=MOST,
    show=lambda value: f"x{value}",
    applies=has_gpus,
    repair="drain {node}, reset or power-cycle it; a link that stays narrow: reseat {device}",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.pcie_width_max")),
    source="nvidia-smi --help-query-gpu, pcie.link.width",
)
