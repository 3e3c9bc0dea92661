"""NVIDIA's driver: kernel modules, library, parameters, device numbers."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

from lockstep.node.readers.commands import Commands, failure
from lockstep.node.readers.gpu import DRIVER, LOADED
from lockstep.node.readers.grub import NO_KERNEL, read_grub
from lockstep.node.readers.reading import ABSENT, Readings, Request, Unread, each, one
from lockstep.node.readers.tree import (
    below,
    exists,
    found_in,
    is_folder,
    line_of,
    resolved,
    text_of,
)

PARAMETERS = "/proc/driver/nvidia/params"
MODULES = ("nvidia", "nvidia-current", "nvidia-current-open")
"""Names that the kernel module may have on disk. NVIDIA's packages use the first one; Debian's use
the others, listed in nvidia-alternative's order of preference."""
FLAVOURS = {"NVIDIA": "proprietary", "Dual MIT/GPL": "open"}
"""Flavour of the kernel module for each license that modinfo prints."""
LIBRARY = "libnvidia-ml.so.1"
LISTED = re.compile(rf"^\s*{re.escape(LIBRARY)} \((.*)\) => (.*)$", re.MULTILINE)
"""A line of ``ldconfig -p``: the flags and the path of the library."""
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64",
)


def read_module(request: Request, commands: Commands) -> Readings:
    """The driver's loaded kernel module: version and flavour."""
    if exists(DRIVER):
        text = text_of(DRIVER)
        match = re.search(r"^NVRM version:.*Kernel Module\b.*?\s(\d+(?:\.\d+)+)\s", text, re.M)
        if not match:
            raise Unread(f"{DRIVER} contains no driver version: {text[:60]!r}")
        flavour = "open" if "Open Kernel Module" in match.group() else "proprietary"
        return {"driver.module": {"version": match.group(1), "flavour": flavour}}
    if not exists(LOADED):
        raise Unread(f"{LOADED}: no such file, so the kernel module is not loaded")
    unknown = {"unread": f"{DRIVER}: no such file"}
    return {"driver.module": {"version": line_of(LOADED), "flavour": unknown}}


def read_driver_parameters(request: Request, commands: Commands) -> Readings:
    """Parameters of NVIDIA's loaded kernel module."""
    lines = [line.partition(":") for line in text_of(PARAMETERS).splitlines()]
    return {"driver.parameters": {name: value.strip().strip('"') for name, _, value in lines}}


HELPERS = ("gdrdrv", "nvidia_fs", "nvidia_peermem")
"""Modules for direct access to GPU memory: GDRCopy, GPUDirect Storage, GPUDirect RDMA."""


def read_loaded_modules(request: Request, commands: Commands) -> Readings:
    """Which of NVIDIA's kernel modules, nouveau and the ``HELPERS`` are loaded."""
    every = below("/sys/module")
    own = {name for name in every if name.startswith(("nvidia", "nouveau"))}
    helpers = [name for name in HELPERS if name in every]
    return {
        "driver.helpers": helpers,
        "driver.loaded": sorted(own | {*helpers} | ({"nvidia"} if exists(DRIVER) else set())),
    }


def read_kernels(request: Request, commands: Commands) -> Readings:
    """The running kernel and the kernels in GRUB's menu, each with its driver module on disk."""
    running, grub = os.uname().release, read_grub()
    menu, later = grub.releases(), grub.next_kernel()
    unclear = Unread(grub.unclear() if menu else NO_KERNEL)

    def shown(release: str) -> dict[str, Any]:
        return {
            **module_file(commands, release),
            "headers": is_folder(f"/lib/modules/{release}/build"),
            "running": release == running,
            "in_menu": release in menu,
        }

    kernels = each(list(dict.fromkeys([running, *menu])), shown)
    return {
        "kernel.next": later or unclear,
        "driver.kernels": kernels,
        "driver.module_on_disk": module_of(kernels[running]),
        "driver.module_next": module_of(kernels[later], kernel=later) if later else unclear,
    }


def module_of(entry: dict[str, Any], **further: str) -> dict[str, Any] | Unread:
    """Return a kernel's driver module as a reading, with the values of ``further`` added."""
    if entry.keys() == {"unread"}:
        return Unread(entry["unread"])
    return {**further, "version": entry["version"], "flavour": entry["flavour"]}


def module_file(commands: Commands, kernel: str) -> dict[str, Any]:
    """Return the version and flavour of a kernel's driver module; "absent" if none is on disk."""
    for name in MODULES:
        status, out, err = commands.outcome("modinfo", "-k", kernel, "-F", "version", name)
        if status == 0:
            licence = commands.run("modinfo", "-k", kernel, "-F", "license", name).strip()
            unknown = {
                "unread": f"modinfo: license is {licence[:60]!r}, expected NVIDIA or Dual MIT/GPL"
            }
            return {"version": out.strip(), "flavour": FLAVOURS.get(licence, unknown)}
        if "not found" not in err:
            raise failure("modinfo", status, out, err)
    return {"version": ABSENT, "flavour": ABSENT}


def read_driver_library(request: Request, commands: Commands) -> Readings:
    """Version of the driver's library, from the name of the file that its link points to."""
    paths = [f"{folder}/{LIBRARY}" for folder in LIBRARY_FOLDERS]
    with suppress(Unread):  # if ldconfig fails, only the usual folders are searched
        listed = LISTED.findall(commands.run("ldconfig", "-p"))
        # 64-bit libraries come before 32-bit ones.
        listed.sort(key=lambda library: "64" not in library[0])
        paths = [path for _, path in listed] + paths
    there = [path for path in paths if exists(path)]
    if not there:
        raise Unread(
            f"{LIBRARY} is neither in the ldconfig cache nor in {', '.join(LIBRARY_FOLDERS)}"
        )
    file = os.path.basename(resolved(there[0]))
    match = re.fullmatch(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)", file)
    if not match:
        raise Unread(f"{there[0]} resolves to {file}, whose name contains no version")
    return {"driver.library": match.group(1)}


BOARDS = "/proc/driver/nvidia/gpus"
BOARD_MAJOR = 195
"""Major number of /dev/nvidia0, /dev/nvidia1, ...; see the Linux kernel's devices.txt."""


def read_board_numbers(request: Request, commands: Commands) -> Readings:
    """The UUID of the GPU behind each device number, from the kernel module."""
    gpus = {}
    for folder in below(BOARDS):
        path = f"{BOARDS}/{folder}/information"
        minor = found_in(path, r"^Device Minor:\s*(\d+)$", "device minor number")
        gpus[f"{BOARD_MAJOR}:{minor}"] = one(uuid_of, path)
    return {"driver.boards": gpus}


def uuid_of(path: str) -> str:
    """Return the UUID in a GPU's file, which shows question marks until a program opens the GPU."""
    nothing = "UUID, because no program has opened the GPU yet"
    return found_in(path, r"^GPU UUID:\s*(GPU-[0-9a-f-]+)$", nothing)
