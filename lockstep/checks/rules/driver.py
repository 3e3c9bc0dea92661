"""Rules about NVIDIA's driver: packages, library, modules, parameters."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.looks import joined, together
from lockstep.checks.rule import (
    DEPLOY,
    REBOOT,
    REBOOT_BY_SLURM,
    UNREAD,
    WARNING,
    Cause,
    Effect,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Pending,
    Repair,
    Rule,
    Text,
    by_role,
    same,
    some,
)
from lockstep.checks.rules._gpu import has_gpus, of_stack
from lockstep.checks.rules.boot import own_kernel
from lockstep.node.check.judge import Judgement
from lockstep.plan.nvidia import MODPROBE
from lockstep.probe.record import MISSING, Unread
from lockstep.spec.software import fits

LOADED, ON_DISK, LIBRARY = "driver.module", "driver.module_on_disk", "driver.library"
NEXT = "driver.module_next"

HELPERS = ("gdrdrv", "nvidia_fs", "nvidia_peermem")
"""Modules for direct access to GPU memory: GDRCopy, GPUDirect Storage, GPUDirect RDMA."""
LOADED_HELPER = "loaded"

REBUILD = f"{DEPLOY}; if DKMS fails, read /var/lib/dkms/nvidia*/*/build/make.log on {{node}}"

DRIVER = "packages of the driver"
FABRIC_MANAGER = "package of the fabric manager"
OF_PACKAGES = "came with the packages"
FROM_PACKAGES = (
    Cause("package.version", tag=DRIVER, of=Effect(tag=OF_PACKAGES)),
    Cause("package.present", tag=DRIVER, of=Effect(tag=OF_PACKAGES)),
    Cause("package.present", tag=DRIVER, of=UNREAD),
)
"""If a missing or wrong package explains the wrong driver, only the package is reported."""


def has_stack(view: View) -> bool:
    """Return whether the plan of the node includes NVIDIA's software."""
    return view.plan.nvidia is not None


def has_own_modules(view: View) -> bool:
    """Return whether the node has its own kernel and therefore its own modules."""
    return bool(of_stack(lambda stack: stack.driver.flavour)(view))


planned_version = of_stack(lambda stack: stack.spec.driver)


def of_module(view: View, reading: str, field: str) -> object:
    """Return the version, flavour or kernel of a module, or None if it could not be read."""
    value = view.items(reading).get(field)
    return None if isinstance(value, Unread) else value


def on_disk(view: View, reading: str) -> Value:
    """Return the version and flavour of the module on disk, in the format of ``wanted_on_disk``."""
    module = view.items(reading)
    missing = module.get("", MISSING)
    return together(
        module.get("version", missing),
        module.get("flavour", missing),
        lambda version, flavour: "absent" if version == "absent" else f"{version} ({flavour})",
    )


wanted_on_disk = of_stack(lambda stack: f"{stack.spec.driver} ({stack.driver.flavour})")


def installed_as_planned(view: View) -> bool:
    """Return whether the planned module is already on disk, in which case a reboot is enough."""
    return on_disk(view, ON_DISK) == wanted_on_disk(view)


def upstream(version: str) -> str:
    """Return the upstream part of a package version, e.g. ``550.163.01`` of ``1:550.163.01-1``."""
    return version.rpartition(":")[2].partition("-")[0]


def other_packages(view: View) -> dict[str, str]:
    """Return the installed versions of all packages that are not at their planned version."""
    installed = view.record.items("packages")
    if isinstance(installed, Unread):
        return {}
    return {
        name: str(installed[name])
        for name, wanted in view.plan.software.versions.items()
        if name in installed and not fits(str(installed[name]), wanted)
    }


def tags_of_package(name: str, view: View) -> frozenset[str]:
    """Return the tags of a finding about the package ``name``."""
    stack = view.plan.nvidia
    if stack is None or name not in stack.driver.packages:
        return frozenset()
    return frozenset({DRIVER, FABRIC_MANAGER} if "fabricmanager" in name else {DRIVER})


def came_with_packages(view: View, version: object) -> frozenset[str]:
    """Return a tag if a driver package is missing or if ``version`` came from a wrong package."""
    stack = view.plan.nvidia
    installed = view.record.items("packages")
    if stack is None or isinstance(installed, Unread):
        return frozenset()
    missing = any(name not in installed for name in stack.driver.packages)
    others = other_packages(view)
    brought = {upstream(others[name]) for name in stack.driver.packages if name in others}
    return frozenset({OF_PACKAGES} if missing or version in brought else ())


def _module_next_items(view: View) -> Items:
    kernel = of_module(view, NEXT, "kernel")
    return {"" if kernel is None else str(kernel): on_disk(view, NEXT)}


def _module_version_pending(view: View, device: str) -> bool:
    return has_own_modules(view) and installed_as_planned(view)


def _declared(view: View) -> dict[str, JsonValue]:
    return {} if view.plan.nvidia is None else dict(view.plan.nvidia.driver.parameters)


def _helper_items(view: View) -> Items:
    loaded = view.read("driver.helpers")
    if isinstance(loaded, Unread):
        return dict.fromkeys(HELPERS, loaded)
    there = loaded if isinstance(loaded, list) else []
    return {name: LOADED_HELPER if name in there else "not loaded" for name in HELPERS}


def _planned_helpers(view: View) -> dict[str, JsonValue]:
    """Return whether the modules are to be loaded, if the description says so.

    Other programs of a site may bring gdrdrv or nvidia_fs; nvidia_peermem comes with the driver.
    """
    stack = view.plan.nvidia
    if stack is None or stack.driver.flavour is None:
        return {}
    planned = {name.replace("-", "_") for name in stack.load_modules}
    return {
        name: LOADED_HELPER if name in planned else "not loaded"
        for name in HELPERS
        if name in planned or name == "nvidia_peermem"
    }


def _loads_helper(view: View, device: str) -> tuple[str, ...]:
    wanted = _planned_helpers(view).get(device) == LOADED_HELPER
    return ("nvidia_driver",) if wanted else ()


RULES = (
    Rule(
        id="driver.helpers",
        kind=Kind.SLOTS,
        claim=(
            "The GPUDirect modules are loaded that the description asks for, and nvidia_peermem "
            "only then. Others are the same on all nodes of a hardware class."
        ),
        why=(
            "DMA-BUF (or nvidia_peermem), gdrdrv and nvidia_fs give direct access to GPU memory. "
            "Without them, data takes the slow path through host memory. With nvidia_peermem, "
            "programs may take the older path on one node and DMA-BUF on the others."
        ),
        blind="Whether programs use the GPUDirect modules. Whether the kernel has DMA-BUF.",
        source="NVIDIA GPU operator, GPUDirect RDMA and Storage; gdrcopy; GPUDirect Storage guide",
        reading="driver.helpers",
        look=Look(_helper_items),
        expected=some(_planned_helpers),
        peers=Peers.CLASS,
        repair=Repair(
            "the module",
            roles=_loads_helper,
            no_role=(
                "on {node}: run modprobe -r {device}, and find out what loads it "
                "(/etc/modules-load.d); or set nics.gpudirect in the description"
            ),
            peers=(
                "on {node}: load the modules that its peers have loaded (modprobe), and add them "
                "to /etc/modules-load.d"
            ),
        ),
        applies=has_gpus,
        explained_by=(
            Cause("driver.module_version"),
            Cause("package.version", tag=DRIVER),
            Cause("package.present", tag=DRIVER),
            Cause("kernel.release"),
        ),
    ),
    Rule(
        id="driver.library_version",
        claim="The driver's library (libnvidia-ml) has the declared version.",
        why=(
            "Programs and containers use libnvidia-ml, which does not work with a kernel module of "
            "a different version."
        ),
        blind="Copies of the library inside containers.",
        source="ldconfig(8)",
        reading=LIBRARY,
        expected=same(planned_version),
        text=Text(lambda value: f"libnvidia-ml {value}"),
        repair=by_role(
            "nvidia_driver",
            (
                "on {node}: find the package that owns the library (dpkg -S libnvidia-ml.so), "
                "remove files that a .run installer left behind, then deploy {node}"
            ),
        ),
        tags=lambda view, device: came_with_packages(view, view.read(LIBRARY)),
        applies=has_stack,
        # The node compares the library with the loaded module, not with the plan. A new version
        # in the plan waits for the rollout and must not drain every node at once.
        on_node=OnNode(
            Local.HEALTH,
            lambda view: [
                Judgement((LOADED,), path=("version",), device="loaded module", reference=LIBRARY)
            ],
        ),
        explained_by=FROM_PACKAGES,
    ),
    Rule(
        id="driver.module_flavour",
        claim="The loaded kernel module has the planned flavour, open or proprietary.",
        why=(
            "The open and the proprietary module share memory with network adapters in different "
            "ways, so the nodes of a mixed cluster behave differently."
        ),
        blind="The flavour that will be loaded at the next boot, which driver.module_next checks.",
        source="NVIDIA driver README, open Linux kernel modules",
        reading=LOADED,
        look=Look(joined(LOADED, "flavour")),
        expected=same(lambda view: view.plan.nvidia.driver.flavour if view.plan.nvidia else None),
        text=Text(lambda value: f"{value} module"),
        repair=by_role(
            "nvidia_driver",
            f"{DEPLOY}, then {REBOOT}",
            pending=Pending(
                lambda view, device: installed_as_planned(view),
                "The planned flavour is on disk and takes effect after the next reboot.",
            ),
        ),
        # Each flavour has its own package, so only a missing package explains the wrong flavour.
        tags=lambda view, device: (
            frozenset() if installed_as_planned(view) else came_with_packages(view, None)
        ),
        applies=has_own_modules,
        explained_by=(
            *FROM_PACKAGES,
            Cause("driver.module_on_disk"),
            Cause("driver.module_version"),
        ),
    ),
    Rule(
        id="driver.module_next",
        claim=(
            "The driver module for the kernel that boots next has the declared version and flavour."
        ),
        why=(
            "A node with a new kernel but no driver module for it will have no GPUs after its next "
            "boot."
        ),
        blind="Installed kernels other than the first entry of GRUB's menu.",
        source="modinfo(8), dkms(8)",
        reading=NEXT,
        look=Look(_module_next_items),
        expected=same(wanted_on_disk),
        repair=by_role("nvidia_driver", REBUILD),
        tags=lambda view, device: came_with_packages(view, of_module(view, NEXT, "version")),
        applies=has_own_modules,
        explained_by=(*FROM_PACKAGES, Cause("driver.module_on_disk")),
    ),
    Rule(
        id="driver.module_on_disk",
        claim=(
            "The driver module on disk for the running kernel has the declared version and flavour."
        ),
        why=(
            "DKMS builds a module for each kernel. A failed build is noticed only at the next boot."
        ),
        blind=(
            "Other installed kernels (driver.module_next checks the kernel that boots next). An "
            "old module in the initramfs."
        ),
        source="modinfo(8), dkms(8)",
        reading=ON_DISK,
        look=Look(lambda view: {"": on_disk(view, ON_DISK)}),
        expected=same(wanted_on_disk),
        repair=by_role("nvidia_driver", REBUILD),
        tags=lambda view, device: came_with_packages(view, of_module(view, ON_DISK, "version")),
        applies=has_own_modules,
        explained_by=FROM_PACKAGES,
    ),
    Rule(
        id="driver.module_version",
        claim="The loaded kernel module has the version of the declared driver.",
        why="If the library and the module have different versions, no program can use a GPU.",
        blind="Module parameters, which driver.parameters checks.",
        source="NVIDIA driver README, /proc/driver/nvidia/version",
        reading=LOADED,
        look=Look(joined(LOADED, "version")),
        expected=same(planned_version),
        text=Text(lambda value: f"module {value}"),
        repair=by_role(
            "nvidia_driver",
            f"{DEPLOY}, then {REBOOT}",
            pending=Pending(
                _module_version_pending,
                "The declared module is on disk and takes effect after the next reboot.",
            ),
        ),
        tags=lambda view, device: (
            frozenset()
            if _module_version_pending(view, device)
            else came_with_packages(view, of_module(view, LOADED, "version"))
        ),
        applies=has_stack,
        explained_by=(*FROM_PACKAGES, Cause("driver.module_on_disk")),
    ),
    Rule(
        id="driver.parameters",
        claim=(
            "Declared module parameters are in force, and all others are the same as on the peers."
        ),
        why="A single parameter (memory mapping, firmware, power) can change how a node behaves.",
        blind="Parameters that the module does not report. A wrong value on all nodes.",
        source="/proc/driver/nvidia/params, NVIDIA driver README",
        reading="driver.parameters",
        kind=Kind.SLOTS,
        expected=some(_declared),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_role(
            "nvidia_driver",
            f"{DEPLOY}, then {REBOOT}",
            peers=(
                "compare /etc/modprobe.d and the kernel command line of {node} with those of its "
                f"peers, then {REBOOT_BY_SLURM}"
            ),
            pending=Pending(
                lambda view, name: name in _declared(view),
                "A declared parameter takes effect after the next reboot.",
            ),
        ),
        applies=lambda view: has_gpus(view) and own_kernel(view),
        explained_by=(
            Cause("file.content", device=MODPROBE),
            Cause("driver.module_version"),
            Cause("driver.module_flavour"),
            Cause("package.version", tag=DRIVER),
            Cause("package.present", tag=DRIVER),
        ),
    ),
)
