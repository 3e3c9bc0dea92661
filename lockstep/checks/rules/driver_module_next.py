"""The kernel that boots next would load the declared driver, in the declared flavour.

Why      A new kernel without the driver's module: after its next boot the node has no GPUs.
Blind    Kernels that are installed and are not the first entry of GRUB's menu.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._driver import (
    FROM_PACKAGES,
    NEXT,
    REBUILD,
    brought,
    has_own_modules,
    on_disk,
    wanted_on_disk,
)
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    value = on_disk(view, NEXT)
    kernel = view.items(NEXT).get("kernel")
    return {"" if kernel is None or isinstance(kernel, Unread) else str(kernel): value}


RULE = Rule(
    id="driver.module_next",
    title="the kernel that boots next has the declared driver",
    reading=NEXT,
    look=_look,
    expected=wanted_on_disk,
    grounds=lambda view, device: brought(view, NEXT),
    applies=has_own_modules,
    repair=REBUILD,
    owner="nvidia_driver",
    explained_by=(*FROM_PACKAGES, Cause("driver.module_on_disk")),
    source="modinfo(8), dkms(8)",
)
