"""GPU settings: the declared values, or the GPU's own defaults, set now and at every boot.

Owns     the settings made with nvidia-smi: power limit, clocks, persistence mode, compute mode,
         ECC, MIG; a unit restores them at boot.
Busy     compute mode, ECC and MIG mode change only on a GPU without processes; ECC then takes
         effect at the next boot. Missing MIG devices are added even to a busy GPU, because that
         does not disturb the existing ones.
Failure  if nvidia-smi fails, the role changes nothing, and the check names the node. If the unit
         fails, usually because of a dead GPU, the deploy reports the failure and continues;
         the check names the unit and the GPU.
"""

from __future__ import annotations

from lockstep.facts.gpus import gpu_states
from lockstep.plan.declaration import SHELL, Declaration, File, Unit, whole_unit
from lockstep.plan.nvidia import GPU_SETTINGS, MIG_MADE

PROGRAM = "/usr/local/sbin/lockstep-gpu-settings"

ROLE = Declaration(
    name="gpu_settings",
    title="GPU settings",
    jobs_use=True,
    when=lambda plan: plan.gpu is not None,
    after=("nvidia_driver", "dcgm_exporter"),
    files=(
        File(
            path=PROGRAM,
            template="gpu_settings/gpu-settings.sh.j2",
            mode="755",
            validate=SHELL,
        ),
        File(
            path=f"/etc/systemd/system/{GPU_SETTINGS}",
            template="gpu_settings/gpu-settings.service.j2",
            validate=whole_unit(GPU_SETTINGS),
        ),
    ),
    units=(Unit(name=GPU_SETTINGS, essential=False),),
    makes=(MIG_MADE,),
    operations="lockstep.roles.operations.gpu_settings",
    asks=lambda plan: [gpu_states()],
)
