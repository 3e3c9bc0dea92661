"""Error correction of the boards' memory is as declared, now and after the next reset.

Why      Without it a flipped bit ends in the model's weights and nobody learns of it.
Pending  The wanted mode is set and waits for a reset of the board or a reboot. The other way
         round, where the next reset would end the wanted mode, it differs.
Blind    Errors that were corrected: their counters are another matter.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    now, later = view.items("gpu.ecc.current"), view.items("gpu.ecc.pending")
    items: Items = {}
    for board in sorted({*now, *later}):
        missing = Unread(unread="not in the record")
        current, pending = now.get(board, missing), later.get(board, missing)
        if isinstance(current, Unread) or isinstance(pending, Unread):
            items[board] = current if isinstance(current, Unread) else pending
        else:
            same = current == pending
            items[board] = current if same else f"{current}, {pending} after a reset"
    return items


def _wanted(view: View) -> str:
    gpu = view.plan.hardware.hardware.gpu
    return "Enabled" if gpu is None or gpu.ecc else "Disabled"


def _pending(view: View, board: str) -> bool:
    return view.items("gpu.ecc.pending").get(board) == _wanted(view)


RULE = Rule(
    id="gpu.ecc",
    title="error correction is as declared",
    reading="gpu.ecc.current",
    look=_look,
    devices=DEVICES,
    expected=_wanted,
    pending=_pending,
    applies=has_gpus,
    repair="on {node}: nvidia-smi -e 1 (0 to switch it off), then reboot it when it is idle",
    repair_pending="reboot {node} when it is idle",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi --help-query-gpu, ecc.mode",
)
