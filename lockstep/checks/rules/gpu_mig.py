"""Boards are whole or divided (MIG) as declared, now and after the next reset.

Why      A board left divided after a test gives a job a slice where it expects a board.
Pending  The wanted mode is set and waits for a reset of the board or a reboot. The other way
         round, where the next reset would end the wanted mode, it differs.
Blind    How a board is divided: gpu.mig_layout.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, after_reset, both, divisible


def _look(view: View) -> Items:
    return both(view, "gpu.mig.current", "gpu.mig.pending", after_reset)


def _wanted(view: View) -> str:
    gpu = view.plan.hardware.hardware.gpu
    return "Enabled" if gpu is not None and gpu.mig else "Disabled"


RULE = Rule(
    id="gpu.mig",
    title="boards are whole or divided as declared",
    reading="gpu.mig.current",
    look=_look,
    devices=DEVICES,
    expected=_wanted,
    pending=lambda view, board: view.items("gpu.mig.pending").get(board) == _wanted(view),
    show=lambda value: f"MIG {value}",
    applies=divisible,
    owner="gpu_settings",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi --help-query-gpu, mig.mode; MIG user guide",
)
