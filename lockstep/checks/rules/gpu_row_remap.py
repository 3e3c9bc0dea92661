"""No row of a board's memory waits to be replaced, and none could not be.

Why      Until the reset the bad row is in use; without a spare row the board ends jobs for good.
Pending  A row waits for the next reset of the board: a reboot does it.
Blind    Rows that were replaced (remapped_rows.uncorrectable); boards that are divided (MIG), and
         those before Ampere, which cannot replace rows.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Local, Rule
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    both,
    has_whole_gpus,
    same_board,
)
from lockstep.node.check.judge import Judgement

PENDING, FAILURE = "gpu.remapped.pending", "gpu.remapped.failure"
WITHOUT = ("volta", "turing")
FINE, WAITS, FAILED = "no row waits", "a row waits for a reset", "no spare row left"


def _look(view: View) -> Items:
    def say(pending: object, failure: object) -> str:
        if failure != "No":
            return FAILED
        return FINE if pending == "No" else WAITS

    return both(view, PENDING, FAILURE, say)


def _applies(view: View) -> bool:
    model = view.plan.hardware.gpu_model
    return has_whole_gpus(view) and model is not None and model.architecture not in WITHOUT


RULE = Rule(
    id="gpu.row_remap",
    title="no row of the boards' memory waits to be replaced",
    reading=PENDING,
    look=_look,
    devices=DEVICES,
    expected=lambda view: FINE,
    pending=lambda view, device: _look(view).get(device) == WAITS,
    applies=_applies,
    local=Local.JOBS,
    # A row that waits for a reset is the rollout's: it drains the node by itself.
    on_node=lambda view: [Judgement((FAILURE,), devices=DEVICES, expected="No")],
    repair="drain {node} and have {device} replaced",
    explained_by=(
        *UNREAD_WITH_COUNT,
        *UNREAD_WITH_MIG,
        *same_board("gpu.ecc_uncorrected"),
        Cause("gpu.ecc", same_device=True, only_unread=True),
    ),
    source="NVIDIA GPU memory error management, row remapping",
)
