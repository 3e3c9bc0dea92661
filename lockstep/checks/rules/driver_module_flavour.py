"""The loaded kernel module is the open or the proprietary one, as planned.

Why      They differ in how GPUs share memory with network cards; a mixed cluster behaves as two.
Pending  The planned one is on disk: a reboot loads it.
Blind    A module whose version is read and whose flavour is not told (/sys/module alone).
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import DEPLOY, REBOOT, Cause, Rule
from lockstep.checks.rules._driver import (
    FROM_PACKAGES,
    LOADED,
    came_with_packages,
    has_own_modules,
    installed_as_planned,
)
from lockstep.probe.record import MISSING


def _look(view: View) -> Items:
    module = view.items(LOADED)
    return {"": module.get("flavour", module.get("", MISSING))}


def _grounds(view: View, device: str) -> frozenset[str]:
    # Two packages bring the two flavours: the planned one is missing.
    return frozenset() if installed_as_planned(view) else came_with_packages(view, None)


RULE = Rule(
    id="driver.module_flavour",
    title="the loaded kernel module is of the planned flavour",
    reading=LOADED,
    look=_look,
    expected=lambda view: view.plan.nvidia.modules if view.plan.nvidia else None,
    show=lambda value: f"{value} module",
    pending=lambda view, device: installed_as_planned(view),
    grounds=_grounds,
    applies=has_own_modules,
    repair=f"{DEPLOY}, then {REBOOT}",
    owner="nvidia_driver",
    explained_by=(
        *FROM_PACKAGES,
        Cause("driver.module_on_disk"),
        Cause("driver.module_version"),
    ),
    source="NVIDIA driver README, open Linux kernel modules",
)
