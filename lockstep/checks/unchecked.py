"""Operations of roles whose result no rule checks, each with its reason.

``tests/checks/test_every_effect.py`` proves that the check finds a change of all others.
"""

from __future__ import annotations

UNCHECKED = {
    "modules.loaded": (
        "without the module driver.module_version cannot be read, which is a finding for a "
        "person; the next deploy loads it"
    ),
    "container_runtime.live_restore": (
        "file.content judges the file; a running Docker uses another value only after a "
        "restart, and a deploy reloads it first"
    ),
    "container_runtime.check_image": (
        "lockstep check --containers starts the image; without it the containers of that "
        "engine are unread"
    ),
    "enroot.folders_for_all": "file.content judges the file that creates them at each boot",
    "hugepages.group": (
        "file.content judges its file, and hugepages.mount the group of the mounts, by number"
    ),
    "manifest.recorded": (
        "the next deploy writes a lost manifest again; it does not know what earlier deploys left"
    ),
    "nvidia_driver.initramfs": (
        "the files are judged on disk; an initramfs without them shows after a boot, as "
        "driver.parameters and kernel.nouveau"
    ),
    "slurm_accounting.database": "without it slurmdbd stops at its next start: unit.active",
    "slurm_controller.registered_in_accounting": (
        "a check does not query the database; the next deploy does"
    ),
    "slurm_controller.distributed": "slurm.conf judges the slurm.conf of each worker",
    "slurm_worker.registered": (
        "slurm.state reports every node without jobs; a deploy returns only nodes that drained "
        "by themselves, a person the others"
    ),
}
"""Operation -> why a change of its result gives no finding of its own."""

OF_ROLLOUT = {
    "reboot.rebooted": "deploys/reboot.py: other rules judge whether a reboot is due",
    "removal.removed": "deploys/remove.py: the rules left_over.* judge what is left",
}
"""Operations of no role of a node."""
