"""The loaded kernel module is the declared driver.

Why      Library and module of two versions refuse to work together: no program sees a GPU.
Pending  The declared module is on disk: a reboot loads it.
Blind    Parameters of the module (/proc/driver/nvidia/params).
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import DEPLOY, REBOOT, Cause, Rule
from lockstep.checks.rules._driver import (
    FROM_PACKAGES,
    LOADED,
    came_with_packages,
    has_own_modules,
    has_stack,
    installed_as_planned,
    of_module,
    planned_version,
)
from lockstep.probe.record import MISSING


def _look(view: View) -> Items:
    module = view.items(LOADED)
    return {"": module.get("version", module.get("", MISSING))}


def _pending(view: View, device: str) -> bool:
    return has_own_modules(view) and installed_as_planned(view)


def _grounds(view: View, device: str) -> frozenset[str]:
    if _pending(view, device):
        return frozenset()
    return came_with_packages(view, of_module(view, LOADED, "version"))


RULE = Rule(
    id="driver.module_version",
    title="the loaded kernel module is the declared driver",
    reading=LOADED,
    look=_look,
    expected=planned_version,
    show=lambda value: f"module {value}",
    pending=_pending,
    grounds=_grounds,
    applies=has_stack,
    repair=f"{DEPLOY}, then {REBOOT}",
    owner="nvidia_driver",
    explained_by=(*FROM_PACKAGES, Cause("driver.module_on_disk")),
    source="NVIDIA driver README, /proc/driver/nvidia/version",
)
