"""Every board's link has all its lanes.

Why      A board that is badly seated trains with half its lanes: it computes as fast as ever,
         is fed at half the speed, and the whole job waits for it.
Blind    The link's speed, which falls while a board is idle; lanes that give errors; a slot with
         fewer lanes than the board, which the driver counts as the most that is possible.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus
from lockstep.probe.record import Unread

MOST = "gpu.pcie.width_max"


def _look(view: View) -> Items:
    """Return the current widths; a board whose most is unread is unread, or nobody judges it."""
    most = view.items(MOST)
    if isinstance(whole := most.get(""), Unread):
        return {"": whole}
    missing = Unread(unread="not in the record")
    return {
        board: limit if isinstance(limit := most.get(board, missing), Unread) else width
        for board, width in view.items("gpu.pcie.width_current").items()
    }


RULE = Rule(
    id="gpu.pcie_width",
    title="boards' links have all their lanes",
    reading="gpu.pcie.width_current",
    look=_look,
    devices=DEVICES,
    device=MOST,
    show=lambda value: f"x{value}",
    applies=has_gpus,
    repair="drain {node}, reset or power-cycle it; a link that stays narrow: reseat {device}",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi --help-query-gpu, pcie.link.width",
)
