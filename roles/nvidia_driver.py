"""NVIDIA's driver: modules that are built and loaded, nouveau that is not, and persistenced.

Owns     module options and load order; modules for the kernel that runs and the one that boots
         next; nvidia-persistenced; and that no unit runs here for hardware that is not here.
Reboot   new options wait for one. Another version of an installed driver is the rollout's
         (deploys/reboot.py): packages, kernel module and library change together, under no job.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Contribution, Declaration, File, Unit
from lockstep.plan.nvidia import MODPROBE, PERSISTENCED, forbidden_units


def _own_modules(plan: NodePlan) -> bool:
    return plan.nvidia is not None and plan.nvidia.modules is not None


def _persistent(plan: NodePlan) -> bool:
    return plan.gpu is None or plan.gpu.persistence


ROLE = Declaration(
    name="nvidia_driver",
    title="NVIDIA driver",
    jobs_use=True,
    when=lambda plan: plan.nvidia is not None and plan.nvidia.has("driver"),
    after=("boot_loader", "node_exporter"),
    more_packages=lambda plan: plan.stack_packages("driver", "modules_open", "modules_proprietary"),
    files=(
        File(
            path=MODPROBE,
            template="nvidia_driver/modprobe.conf.j2",
            # modprobe(8) reads a folder: it complains about what it cannot read.
            validate=(
                'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; '
                'cp {new} "$d/50-lockstep-nvidia.conf"; '
                'said="$(modprobe -C "$d" --showconfig 2>&1 >/dev/null)"; [ -z "$said" ] || '
                '{{ echo "$said" >&2; exit 1; }}'
            ),
            wanted=_own_modules,
        ),
        File(
            path="/etc/modules-load.d/50-lockstep-nvidia.conf",
            template="nvidia_driver/modules.conf.j2",
            wanted=_own_modules,
        ),
    ),
    units=(
        Unit(
            name=PERSISTENCED,
            program="/usr/bin/nvidia-persistenced",
            reads_own_files=False,
            wanted=_persistent,
        ),
    ),
    contributes=Contribution(forbidden_units=lambda plan: forbidden_units(plan.hardware.hardware)),
    operations="lockstep.roles.operations.nvidia_driver",
)
