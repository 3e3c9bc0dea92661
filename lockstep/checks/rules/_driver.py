"""Shared by rules about NVIDIA's driver: packages, library, module on disk and loaded."""

from __future__ import annotations

from lockstep.checks.cause import UNREAD, Cause, Effect
from lockstep.checks.context import Value, View
from lockstep.checks.repair import (
    DEPLOY,
)
from lockstep.probe.record import MISSING, Unread
from lockstep.spec.software import fits

LOADED, ON_DISK, LIBRARY = "driver.module", "driver.module_on_disk", "driver.library"
NEXT = "driver.module_next"

REBUILD = f"{DEPLOY}; if DKMS fails, read /var/lib/dkms/nvidia*/*/build/make.log on {{node}}"

DRIVER = "packages of the driver"
FABRIC_MANAGER = "package of the fabric manager"
OF_PACKAGES = "came with the packages"
FROM_PACKAGES = (
    Cause("package.version", tag=DRIVER, of=Effect(tag=OF_PACKAGES)),
    Cause("package.present", tag=DRIVER, of=Effect(tag=OF_PACKAGES)),
    Cause("package.present", tag=DRIVER, of=UNREAD),
)
"""The packages brought what is on the node: they are the finding."""


def has_stack(view: View) -> bool:
    """Apply to nodes with NVIDIA's stack."""
    return view.plan.nvidia is not None


def has_own_modules(view: View) -> bool:
    """Apply to nodes with a kernel, and so modules, of their own."""
    return view.plan.nvidia is not None and view.plan.nvidia.modules is not None


def planned_version(view: View) -> str | None:
    """Return the declared version of the driver."""
    return view.plan.nvidia.spec.driver if view.plan.nvidia is not None else None


def of_module(view: View, reading: str, field: str) -> object:
    """Return version or flavour of a module; None if it was not read."""
    value = view.items(reading).get(field)
    return None if isinstance(value, Unread) else value


def on_disk(view: View, reading: str) -> Value:
    """Return a module on disk as ``wanted_on_disk`` writes it."""
    module = view.items(reading)
    missing = module.get("", MISSING)
    version, flavour = module.get("version", missing), module.get("flavour", missing)
    for value in (version, flavour):
        if isinstance(value, Unread):
            return value
    return "absent" if version == "absent" else f"{version} ({flavour})"


def wanted_on_disk(view: View) -> str | None:
    """Return version and flavour of the declared module."""
    stack = view.plan.nvidia
    return None if stack is None else f"{stack.spec.driver} ({stack.modules})"


def installed_as_planned(view: View) -> bool:
    """Say whether the planned module is on disk, so that only a reboot is missing."""
    stack = view.plan.nvidia
    return stack is not None and (
        of_module(view, ON_DISK, "version") == stack.spec.driver
        and of_module(view, ON_DISK, "flavour") == stack.modules
    )


def upstream(version: str) -> str:
    """Return a package version without epoch and revision: 550.163.01 of 1:550.163.01-1."""
    return version.rpartition(":")[2].partition("-")[0]


def other_packages(view: View) -> dict[str, str]:
    """Return package -> installed version, where it differs from the planned one."""
    installed = view.record.items("packages")
    if isinstance(installed, Unread):
        return {}
    return {
        name: str(installed[name])
        for name, wanted in view.plan.versions.items()
        if name in installed and not fits(str(installed[name]), wanted)
    }


def tags_of_package(name: str, view: View) -> frozenset[str]:
    """Return the tags of a finding about this package."""
    stack = view.plan.nvidia
    if stack is None or name not in stack.driver_packages:
        return frozenset()
    return frozenset({DRIVER, FABRIC_MANAGER} if "fabricmanager" in name else {DRIVER})


def brought(view: View, reading: str) -> frozenset[str]:
    """Return a tag where the module of a reading came with the packages."""
    return came_with_packages(view, of_module(view, reading, "version"))


def came_with_packages(view: View, version: object) -> frozenset[str]:
    """Return a tag where packages have this version, or some are missing."""
    stack = view.plan.nvidia
    installed = view.record.items("packages")
    if stack is None or isinstance(installed, Unread):
        return frozenset()
    missing = any(name not in installed for name in stack.driver_packages)
    others = other_packages(view)
    brought = {upstream(others[name]) for name in stack.driver_packages if name in others}
    return frozenset({OF_PACKAGES} if missing or version in brought else ())
