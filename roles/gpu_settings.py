"""Settings of every GPU: as declared, or as the board's own default; and again at every boot.

Owns     what nvidia-smi sets: power limit, clocks, persistence, compute mode, ECC, MIG; a unit of
         ours puts it back at boot.
Busy     MIG and ECC change only on a board without processes; ECC then waits for a reboot.
         MIG devices that a board lacks are added at once: those that are there notice nothing.
Unread   no answer from nvidia-smi: nothing is done, and the check names the node.
Goes on  where the unit fails, over a dead board as a rule: it says so, and the check names both.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import GPU_SETTINGS
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.gpu_settings import running_settings
from lockstep.roles.operations.service import service


@role("GPU settings")
def apply(plan: NodePlan) -> None:
    """Set what differs, where the plan has GPUs."""
    gpu = plan.gpu
    if gpu is None:
        return
    files = managed(plan, None, "gpu_settings")
    managed_files(name="Files", files=files)
    service(
        name="At boot",
        unit=GPU_SETTINGS,
        files=tuple(file.path for file in files),
        essential=False,
    )
    model = plan.hardware.gpu_model
    assert model is not None  # a class with GPUs has one
    running_settings(name="Running settings", gpu=gpu, default_w=model.default_power_limit_w)
