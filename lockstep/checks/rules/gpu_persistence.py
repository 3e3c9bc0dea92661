"""The driver stays loaded when no job runs.

Why      Otherwise power limits and clocks are forgotten between jobs, and each job starts slowly.
Blind    Whether the daemon or the old driver mode holds it.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus
from lockstep.report import Severity


def _wanted(view: View) -> str:
    gpu = view.plan.hardware.hardware.gpu
    return "Enabled" if gpu is None or gpu.persistence else "Disabled"


RULE = Rule(
    id="gpu.persistence",
    title="persistence mode is as declared",
    reading="gpu.persistence",
    devices=DEVICES,
    expected=_wanted,
    severity=Severity.WARNING,
    applies=has_gpus,
    owner="gpu_settings",
    explained_by=UNREAD_WITH_COUNT,
    source="NVIDIA driver persistence documentation",
)
