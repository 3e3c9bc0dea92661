"""Settings of every GPU: as declared, or as the GPU's own default; and again at every boot.

Owns     what nvidia-smi sets: power limit, clocks, persistence, compute mode, ECC, MIG; a unit
         puts it back at boot.
Busy     MIG and ECC change only on a GPU without processes; ECC then waits for a reboot.
         MIG devices that a GPU lacks are added at once: those that exist notice nothing.
Unread   no answer from nvidia-smi: nothing is done, and the check names the node.
Goes on  where the unit fails, over a dead GPU as a rule: it says so, and the check names both.
"""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, File, Unit
from lockstep.plan.nvidia import GPU_SETTINGS, MIG_MADE
from lockstep.plan.validation import SHELL, whole_unit

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
)
