"""NVIDIA's driver: builds and loads its modules, blocks nouveau, and runs nvidia-persistenced.

Owns     module options and load order; modules for the running kernel and for the one that boots
         next; nvidia-persistenced; units that stay off because the node lacks their hardware.
Reboot   new module options take effect at the next boot. The rollout (deploys/reboot.py) changes
         the version of an installed driver: packages, kernel module and library together, while no
         jobs are running.
"""

from __future__ import annotations

from lockstep.facts.boot import initramfs_is_due
from lockstep.facts.driver import boot_kernels, loaded_driver
from lockstep.facts.gpus import gpu_states
from lockstep.facts.packages import package_state
from lockstep.facts.services import service_state
from lockstep.facts.signing import module_trust
from lockstep.plan import NodePlan
from lockstep.plan.declaration import SHELL, Contribution, Declaration, File, Unit, rhel
from lockstep.plan.nvidia import MODPROBE, PERSISTENCED, forbidden_units, stack_packages
from lockstep.plan.signing import signing
from lockstep.question import Questions


def _own_modules(plan: NodePlan) -> bool:
    return plan.nvidia is not None and plan.nvidia.driver.flavour is not None


def _asks(plan: NodePlan) -> Questions:
    if _own_modules(plan):
        yield initramfs_is_due(plan.system.paths("nvidia_driver"))
        yield package_state(plan.software.packages)
        yield from (boot_kernels(), loaded_driver())
        if signing(plan) is not None:
            yield module_trust()
    if plan.system.forbidden_units:
        yield gpu_states()
    yield from map(service_state, plan.system.forbidden_units)


ROLE = Declaration(
    name="nvidia_driver",
    title="NVIDIA driver",
    jobs_use=True,
    when=lambda plan: plan.nvidia is not None and plan.nvidia.has("driver"),
    # A kernel that checks signatures loads only modules that are signed already.
    after=("boot_loader", "module_signing.signed", "node_exporter"),
    more_packages=lambda plan: stack_packages(
        plan, "driver", "modules_open", "modules_proprietary"
    ),
    files=(
        File(
            path=MODPROBE,
            template="nvidia_driver/modprobe.conf.j2",
            # modprobe(8) reads a folder, and complains about lines that it cannot parse.
            validate=(
                'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; '
                'cp {new} "$d/50-lockstep-nvidia.conf"; '
                'said="$(modprobe -C "$d" --showconfig 2>&1 >/dev/null)"; [ -z "$said" ] || '
                '{{ echo "$said" >&2; exit 1; }}'
            ),
            wanted=_own_modules,
        ),
        File(
            path="/etc/dracut.conf.d/50-lockstep-nvidia.conf",
            template="nvidia_driver/dracut.conf.j2",
            validate=SHELL,
            wanted=lambda plan: rhel(plan) and _own_modules(plan),
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
            wanted=lambda plan: plan.gpu is None or plan.gpu.persistence is not False,
        ),
    ),
    contributes=Contribution(forbidden_units=lambda plan: forbidden_units(plan.hardware.hardware)),
    operations="lockstep.roles.operations.nvidia_driver",
    asks=_asks,
    unchecked={
        "initramfs": (
            "file.content checks the files on disk; if the initramfs lacks them, driver.parameters "
            "and kernel.nouveau report the effect after the next boot"
        ),
        "loaded": (
            "if the module is not loaded, driver.module_version cannot be read, which is a "
            "finding; the next deploy loads the module"
        ),
    },
)
