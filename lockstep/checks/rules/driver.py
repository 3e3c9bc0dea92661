"""Rules about NVIDIA's driver: packages, library, modules, parameters."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.cause import Cause
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    DEPLOY,
    REBOOT,
    REBOOT_BY_SLURM,
    Pending,
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Text,
    same,
    some,
)
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._driver import (
    DRIVER,
    FROM_PACKAGES,
    LIBRARY,
    LOADED,
    NEXT,
    ON_DISK,
    REBUILD,
    brought,
    came_with_packages,
    has_own_modules,
    has_stack,
    installed_as_planned,
    of_module,
    on_disk,
    planned_version,
    wanted_on_disk,
)
from lockstep.checks.rules._gpu import has_gpus
from lockstep.node.check.judge import Judgement
from lockstep.plan.nvidia import MODPROBE
from lockstep.probe.record import MISSING, Unread

NEEDS_ITS_MODULE = Judgement(
    (LOADED,),
    path=("version",),
    device="loaded module",
    reference=LIBRARY,
)
"""The node compares them with each other: a new version in the plan waits for the rollout, and
must not take out every node at once."""


def _module_flavour_items(view: View) -> Items:
    module = view.items(LOADED)
    return {"": module.get("flavour", module.get("", MISSING))}


def _module_flavour_tags(view: View, device: str) -> frozenset[str]:
    # Two packages bring the two flavours: the planned one is missing.
    return frozenset() if installed_as_planned(view) else came_with_packages(view, None)


def _module_next_items(view: View) -> Items:
    value = on_disk(view, NEXT)
    kernel = view.items(NEXT).get("kernel")
    return {"" if kernel is None or isinstance(kernel, Unread) else str(kernel): value}


def _module_version_items(view: View) -> Items:
    module = view.items(LOADED)
    return {"": module.get("version", module.get("", MISSING))}


def _module_version_pending(view: View, device: str) -> bool:
    return has_own_modules(view) and installed_as_planned(view)


def _module_version_tags(view: View, device: str) -> frozenset[str]:
    if _module_version_pending(view, device):
        return frozenset()
    return came_with_packages(view, of_module(view, LOADED, "version"))


def _declared(view: View) -> dict[str, JsonValue]:
    return {} if view.plan.nvidia is None else dict(view.plan.nvidia.parameters)


RULES = (
    Rule(
        id="driver.helpers",
        claim="The same GPUDirect modules are loaded on all nodes of a hardware class.",
        why=(
            "Without nvidia_peermem (or DMA-BUF), gdrdrv and nvidia_fs, data takes the slow "
            "way through the host's memory."
        ),
        blind="Whether a program uses them. A module that all nodes lack.",
        source="NVIDIA GPUDirect RDMA guide, nvidia-peermem; gdrcopy; GPUDirect Storage guide",
        reading="driver.helpers",
        peers=Peers.CLASS,
        repair=by_hand(
            peers=(
                "on {node}: load the modules of its peers (modprobe), and add them to "
                "/etc/modules-load.d"
            )
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
        claim="The driver's library has the declared version.",
        why=(
            "Programs and containers use it. It does not work with a kernel module of another "
            "version."
        ),
        blind="Copies inside containers.",
        source="ldconfig(8)",
        reading=LIBRARY,
        expected=same(planned_version),
        text=Text(lambda value: f"libnvidia-ml {value}"),
        repair=by_role(
            "nvidia_driver",
            (
                "on {node}: find the file's package (dpkg -S libnvidia-ml.so), remove files of "
                "a .run installer, then deploy"
            ),
        ),
        tags=lambda view, device: came_with_packages(view, view.read(LIBRARY)),
        applies=has_stack,
        on_node=OnNode(Local.HEALTH, lambda view: [NEEDS_ITS_MODULE]),
        explained_by=FROM_PACKAGES,
    ),
    Rule(
        id="driver.module_flavour",
        claim="The loaded kernel module has the planned flavour, open or proprietary.",
        why=(
            "The flavours share memory with network cards in different ways: a mixed cluster "
            "behaves like two."
        ),
        blind="A module that shows its version but not its flavour (/sys/module alone).",
        source="NVIDIA driver README, open Linux kernel modules",
        reading=LOADED,
        look=Look(_module_flavour_items),
        expected=same(lambda view: view.plan.nvidia.modules if view.plan.nvidia else None),
        text=Text(lambda value: f"{value} module"),
        repair=by_role(
            "nvidia_driver",
            f"{DEPLOY}, then {REBOOT}",
            pending=Pending(
                lambda view, device: installed_as_planned(view),
                "The planned flavour is on disk and waits for a reboot.",
            ),
        ),
        tags=_module_flavour_tags,
        applies=has_own_modules,
        explained_by=(
            *FROM_PACKAGES,
            Cause("driver.module_on_disk"),
            Cause("driver.module_version"),
        ),
    ),
    Rule(
        id="driver.module_next",
        claim="The kernel of the next boot has the declared driver, in the declared flavour.",
        why=(
            "With a new kernel and no driver module for it, the node has no GPUs after its "
            "next boot."
        ),
        blind="Installed kernels other than the first entry of GRUB's menu.",
        source="modinfo(8), dkms(8)",
        reading=NEXT,
        look=Look(_module_next_items),
        expected=same(wanted_on_disk),
        repair=by_role("nvidia_driver", REBUILD),
        tags=lambda view, device: brought(view, NEXT),
        applies=has_own_modules,
        explained_by=(*FROM_PACKAGES, Cause("driver.module_on_disk")),
    ),
    Rule(
        id="driver.module_on_disk",
        claim="The running kernel has the declared driver on disk, in the declared flavour.",
        why="DKMS builds a module for each kernel. A failed build shows at the next boot only.",
        blind="Other installed kernels (driver.module_next). An old module in the initramfs.",
        source="modinfo(8), dkms(8)",
        reading=ON_DISK,
        look=Look(lambda view: {"": on_disk(view, ON_DISK)}),
        expected=same(wanted_on_disk),
        repair=by_role("nvidia_driver", REBUILD),
        tags=lambda view, device: brought(view, ON_DISK),
        applies=has_own_modules,
        explained_by=FROM_PACKAGES,
    ),
    Rule(
        id="driver.module_version",
        claim="The loaded kernel module is the declared driver.",
        why="Library and module of different versions do not work together: no program sees a GPU.",
        blind="Parameters of the module (/proc/driver/nvidia/params).",
        source="NVIDIA driver README, /proc/driver/nvidia/version",
        reading=LOADED,
        look=Look(_module_version_items),
        expected=same(planned_version),
        text=Text(lambda value: f"module {value}"),
        repair=by_role(
            "nvidia_driver",
            f"{DEPLOY}, then {REBOOT}",
            pending=Pending(
                _module_version_pending, "The declared module is on disk and waits for a reboot."
            ),
        ),
        tags=_module_version_tags,
        applies=has_stack,
        explained_by=(*FROM_PACKAGES, Cause("driver.module_on_disk")),
    ),
    Rule(
        id="driver.parameters",
        claim="The kernel module has the declared parameters, and otherwise those of its peers.",
        why="One parameter (memory mapping, firmware, power) can make a node behave differently.",
        blind="Parameters that the module does not show. A wrong value on all nodes.",
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
                "compare /etc/modprobe.d and the kernel's command line of {node} with its "
                f"peers', then {REBOOT_BY_SLURM}"
            ),
            pending=Pending(
                lambda view, name: name in _declared(view),
                "A declared parameter acts after a reboot.",
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
