"""The running kernel would load the declared driver, in the declared flavour.

Why      DKMS builds a module for each kernel: one that failed to build is found at the next boot.
Blind    Other kernels that are installed (driver.module_next); an old module in the initramfs.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._driver import (
    FROM_PACKAGES,
    ON_DISK,
    REBUILD,
    brought,
    has_own_modules,
    on_disk,
    wanted_on_disk,
)

RULE = Rule(
    id="driver.module_on_disk",
    title="the kernel module on disk is the declared driver",
    reading=ON_DISK,
    look=lambda view: {"": on_disk(view, ON_DISK)},
    expected=wanted_on_disk,
    grounds=lambda view, device: brought(view, ON_DISK),
    applies=has_own_modules,
    repair=REBUILD,
    owner="nvidia_driver",
    explained_by=FROM_PACKAGES,
    source="modinfo(8), dkms(8)",
)
