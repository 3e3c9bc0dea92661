"""Every board may draw its full power.

Why      A board left capped passes every other check and sets the pace of the whole job.
Blind    What slows a board and lowers no limit: gpu.power_brake, gpu.thermal_hw.
"""

from lockstep.checks.compare import is_number
from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Local, Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus, watts

ENFORCED = "gpu.power.enforced_w"
REQUESTED = "gpu.power.requested_w"
OWNER = "gpu_settings"


def _declared(view: View) -> float | None:
    gpu = view.plan.hardware.hardware.gpu
    return None if gpu is None else gpu.power_limit_w


def _capped(view: View, board: str) -> str:
    """Say where less is enforced than the driver was asked for."""
    asked, enforced = (view.items(name).get(board) for name in (REQUESTED, ENFORCED))
    if not is_number(asked) or not is_number(enforced) or asked <= enforced:
        return ""
    return f"capped below the driver, which was asked for {watts(asked)}"


def _roles(view: View, board: str) -> tuple[str, ...]:
    """Return who can set it: no deploy lifts a cap from below the driver."""
    return () if _capped(view, board) else (OWNER,)


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
    owner=OWNER,
    roles=_roles,
    repair_no_role="on {node}: lift the cap of {device} where it was set (BMC, power supplies, "
    "firmware)",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.power_default", same_device=True)),
    source="nvidia-smi --help-query-gpu, enforced.power.limit",
)
