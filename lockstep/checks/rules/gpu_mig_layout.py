"""Boards are divided into the MIG devices that are declared.

Why      A job that asks for a 3g slice waits for ever on a node that lost one, or runs on less
         memory than its peers.
Pending  Something else than declared is there: a deploy only adds what is missing, the instances
         of a divided board go with a reboot, and the declared ones are made.
Blind    Where on the board an instance lies; GPU instances without a compute instance, but for
         the device that they fail to be.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, divisible
from lockstep.plan.nvidia import mig_missing

READING = "gpu.mig.devices"


def _declared(view: View) -> list[str]:
    gpu = view.plan.hardware.hardware.gpu
    return sorted(gpu.mig) if gpu is not None else []


def _pending(view: View, board: str) -> bool:
    seen = view.items(READING).get(board)
    return isinstance(seen, list) and mig_missing(_declared(view), map(str, seen)) is None


def _shown(value: JsonValue) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) and value else "no MIG device"


RULE = Rule(
    id="gpu.mig_layout",
    title="boards are divided as declared",
    reading=READING,
    devices=DEVICES,
    expected=lambda view: list[JsonValue](_declared(view)),
    pending=_pending,
    show=_shown,
    applies=divisible,
    owner="gpu_settings",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.mig", same_device=True)),
    source="nvidia-smi(1), -L; MIG user guide, MIG device names",
)
