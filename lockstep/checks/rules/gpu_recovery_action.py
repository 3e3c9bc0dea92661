"""The driver asks for nothing to bring a board back.

Why      A board in a bad state takes jobs and ends them: the driver knows and says it here.
Pending  It asks for a reset or a reboot: the rollout does it.
Blind    Drivers that do not have the field: it is then not judged.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Local, Rule
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    has_gpus,
    in_this_driver,
    same_board,
)
from lockstep.plan.reboot import RECOVERED

READING = "gpu.recovery_action"
ASKED = "the driver asks for something"


def _applies(view: View) -> bool:
    return has_gpus(view) and in_this_driver(view, READING)


RULE = Rule(
    id=READING,
    title="no board waits for a recovery",
    reading=READING,
    devices=DEVICES,
    expected=lambda view: "None",
    grounds=lambda view, device: frozenset({ASKED}),
    applies=_applies,
    pending=lambda view, device: view.items(READING).get(device) in RECOVERED,
    local=Local.JOBS,
    repair="drain {node}, then do on {device} what the driver asks for",
    explained_by=(
        *UNREAD_WITH_COUNT,
        # Where it is unread, it is itself the cause of what else is.
        *same_board("gpu.ecc_uncorrected", "gpu.row_remap", "gpu.xid", grounds=ASKED),
    ),
    source="nvidia-smi --help-query-gpu, gpu_recovery_action",
)
