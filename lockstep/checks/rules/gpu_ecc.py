"""Error correction of the boards' memory is as declared, now and after the next reset.

Why      Without it a flipped bit ends in the model's weights and nobody learns of it.
Pending  The wanted mode is set and waits for a reset of the board or a reboot. The other way
         round, where the next reset would end the wanted mode, it differs.
Blind    Errors that were corrected: their counters are another matter.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, after_reset, both, has_gpus


def _look(view: View) -> Items:
    return both(view, "gpu.ecc.current", "gpu.ecc.pending", after_reset)


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
    owner="gpu_settings",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi --help-query-gpu, ecc.mode",
)
