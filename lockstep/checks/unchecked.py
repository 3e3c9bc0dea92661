"""Operations of roles whose result no rule checks, each with its reason.

``tests/checks/test_every_effect.py`` proves that the check finds a change of all others.
"""

from __future__ import annotations

UNCHECKED = {
    "_modules.loaded": (
        "a node without the module has the finding that it was not read "
        "(driver.module_version), for a person; the next deploy loads it"
    ),
    "container_runtime.live_restore": (
        "the file is judged (file.content); a running Docker's own "
        "flag counts at its next restart only, and the deploy "
        "precedes by a reload"
    ),
    "container_runtime.check_image": (
        "lockstep check --containers starts it: without it the "
        "containers of that engine are not read"
    ),
    "enroot.folders_for_all": "the file that makes them at each boot is judged (file.content)",
    "hugepages.group": (
        "its file is judged (file.content), and so is the group of the mounts "
        "(hugepages.mount), by number"
    ),
    "nvidia_driver.initramfs": (
        "the files in it are judged on disk; an initramfs without them "
        "shows after a boot, as driver.parameters and kernel.nouveau"
    ),
    "slurm_accounting.database": "slurmdbd ends at its next start without it: unit.active",
    "slurm_controller.registered_in_accounting": (
        "the probe does not ask the database; the next deploy does"
    ),
    "slurm_controller.distributed": "each worker's slurm.conf is judged (slurm.conf)",
    "slurm_worker.registered": (
        "slurm.state names every node that takes no jobs; the deploy "
        "returns only those that went away by themselves, the others are a "
        "person's"
    ),
}
"""Operation -> why a change of its result gives no finding of its own."""

OF_ROLLOUT = {
    "reboot.rebooted": "deploys/reboot.py: what waits for a reboot is judged as such",
}
"""Operations of no role of a node."""
