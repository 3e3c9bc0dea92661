"""Boards take processes as declared.

Why      A board left in EXCLUSIVE_PROCESS or PROHIBITED refuses the second process of a job, or
         the first, on one node only.
Blind    What runs on the board now.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus

SHOWN = {
    "default": "Default",
    "exclusive_process": "Exclusive_Process",
    "prohibited": "Prohibited",
}
"""How nvidia-smi writes what the description says."""


def _wanted(view: View) -> str | None:
    gpu = view.plan.hardware.hardware.gpu
    return None if gpu is None else SHOWN[gpu.compute_mode]


RULE = Rule(
    id="gpu.compute_mode",
    title="the compute mode is as declared",
    reading="gpu.compute_mode",
    devices=DEVICES,
    expected=_wanted,
    applies=has_gpus,
    owner="gpu_settings",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi(1), compute mode",
)
