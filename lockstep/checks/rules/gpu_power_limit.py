"""Every board may draw its full power.

Why      A board left capped passes every other check and sets the pace of the whole job.
Blind    A cap below the driver (firmware, power supply): it shows under load only.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Local, Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus, watts

ENFORCED = "gpu.power.enforced_w"


def _declared(view: View) -> float | None:
    gpu = view.plan.hardware.hardware.gpu
    return None if gpu is None else gpu.power_limit_w


def _capped(view: View, board: str) -> str:
    """Say where the driver was asked for another limit: no deploy lifts a cap from below it."""
    asked = view.items("gpu.power.requested_w").get(board)
    if not isinstance(asked, int | float) or asked == view.items(ENFORCED).get(board):
        return ""
    return f"capped below the driver, which was asked for {watts(asked)}"


RULE = Rule(
    id="gpu.power_limit",
    title="boards run at the planned power limit",
    # The enforced limit is the least of all limits; power.limit is only what was asked for.
    reading=ENFORCED,
    devices=DEVICES,
    expected=_declared,
    device="gpu.power.default_w",
    peers=Peers.CLASS,
    show=watts,
    detail=_capped,
    applies=has_gpus,
    local=Local.JOBS,
    owner="gpu_settings",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.power_default", same_device=True)),
    source="nvidia-smi --help-query-gpu, enforced.power.limit",
)
