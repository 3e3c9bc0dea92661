"""The running kernel would load the declared driver, in the declared flavour.

Why      DKMS builds a module for each kernel: one that failed to build is found at the next boot.
Blind    Kernels that are installed and do not run; an old module in the initramfs.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._driver import (
    FROM_PACKAGES,
    ON_DISK,
    came_with_packages,
    has_own_modules,
    of_module,
)
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    module = view.items(ON_DISK)
    if "" in module:
        return module
    missing = Unread(unread="not in the record")
    version, flavour = module.get("version", missing), module.get("flavour", missing)
    if isinstance(version, Unread) or isinstance(flavour, Unread):
        return {"": version if isinstance(version, Unread) else flavour}
    return {"": "absent" if version == "absent" else f"{version} ({flavour})"}


def _wanted(view: View) -> str | None:
    stack = view.plan.nvidia
    return None if stack is None else f"{stack.spec.driver} ({stack.modules})"


RULE = Rule(
    id="driver.module_on_disk",
    title="the kernel module on disk is the declared driver",
    reading=ON_DISK,
    look=_look,
    expected=_wanted,
    grounds=lambda view, device: came_with_packages(view, of_module(view, ON_DISK, "version")),
    applies=has_own_modules,
    repair="on {node}: dkms status, /var/lib/dkms/nvidia*/*/build/make.log; dkms autoinstall",
    owner="nvidia_driver",
    explained_by=FROM_PACKAGES,
    source="modinfo(8), dkms(8)",
)
