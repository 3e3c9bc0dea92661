"""NVIDIA's driver: kernel module, library, parameters, device numbers."""

from __future__ import annotations

import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.grub import FOLDERS, read_grub
from lockstep.node.readers.reading import Readings, Request, Unread, one
from lockstep.node.readers.tree import below, exists, line_of, rooted, text_of

DRIVER = "/proc/driver/nvidia/version"
LOADED = "/sys/module/nvidia/version"
PARAMETERS = "/proc/driver/nvidia/params"
MODULES = ("nvidia", "nvidia-current", "nvidia-current-open")
"""Names of the kernel module on disk: NVIDIA's packages; Debian's, in the order in which they win
(nvidia-alternative)."""
FLAVOURS = {"NVIDIA": "proprietary", "Dual MIT/GPL": "open"}
"""Licence of the kernel module -> which of the two it is."""
LIBRARY = "libnvidia-ml.so.1"
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64",
)


def read_module(request: Request, commands: Commands) -> Readings:
    """The loaded kernel module of the driver: version, and whether it is the open one."""
    if exists(DRIVER):
        text = text_of(DRIVER)
        match = re.search(r"^NVRM version:.*Kernel Module\b.*?\s(\d+(?:\.\d+)+)\s", text, re.M)
        if not match:
            raise Unread(f"{DRIVER}: no version: {text[:60]!r}")
        flavour = "open" if "Open Kernel Module" in match.group() else "proprietary"
        return {"driver.module": {"version": match.group(1), "flavour": flavour}}
    if not exists(LOADED):
        raise Unread(f"{LOADED}: no such file: the kernel module is not loaded")
    unknown = {"unread": f"{DRIVER}: no such file"}
    return {"driver.module": {"version": line_of(LOADED), "flavour": unknown}}


def read_driver_parameters(request: Request, commands: Commands) -> Readings:
    """Parameters that the loaded kernel module works with."""
    lines = [line.partition(":") for line in text_of(PARAMETERS).splitlines()]
    return {"driver.parameters": {name: value.strip().strip('"') for name, _, value in lines}}


HELPERS = ("gdrdrv", "nvidia_fs", "nvidia_peermem")
"""Modules that let adapters and storage reach the memory of boards."""


def read_driver_helpers(request: Request, commands: Commands) -> Readings:
    """Those of these modules that are loaded."""
    return {"driver.helpers": [name for name in HELPERS if name in below("/sys/module")]}


def read_module_on_disk(request: Request, commands: Commands) -> Readings:
    """The kernel module that the running kernel would load; "absent" when it has none."""
    return {"driver.module_on_disk": module_file(commands)}


def read_module_next(request: Request, commands: Commands) -> Readings:
    """The kernel module that the kernel of the next boot would load."""
    grub = read_grub()
    if not grub.releases():
        raise Unread(f"{' and '.join(FOLDERS)}: no entry with a kernel in grub.cfg")
    kernel = grub.next_kernel()
    if not kernel:
        raise Unread(grub.unclear())
    return {"driver.module_next": {"kernel": kernel, **module_file(commands, "-k", kernel)}}


def module_file(commands: Commands, *kernel: str) -> dict[str, Any]:
    """Return version and flavour of the module on disk; "absent" when there is none."""
    for name in MODULES:
        status, out, err = commands.outcome("modinfo", *kernel, "-F", "version", name)
        if status == 0:
            licence = commands.run("modinfo", *kernel, "-F", "license", name).strip()
            unknown = {"unread": f"modinfo: license is {licence[:60]!r}"}
            return {"version": out.strip(), "flavour": FLAVOURS.get(licence, unknown)}
        if "not found" not in err:
            said = (err.strip() or "no message").splitlines()[0]
            raise Unread(f"modinfo: exit {status}: {said[:200]}")
    return {"version": "absent", "flavour": "absent"}


def read_driver_library(request: Request, commands: Commands) -> Readings:
    """Version of the driver's library, from the name of the file that its link leads to."""
    paths = [f"{folder}/{LIBRARY}" for folder in LIBRARY_FOLDERS]
    try:
        listed = commands.run("ldconfig", "-p")
        # The machine's own before those of 32-bit programs.
        lines = [line for line in listed.splitlines() if line.split()[:1] == [LIBRARY]]
        lines.sort(key=lambda line: "64" not in line.partition("=>")[0])
        paths = [line.partition("=>")[2].strip() for line in lines] + paths
    except Unread:  # without its list, the usual folders are looked at alone
        pass
    there = [path for path in paths if exists(path)]
    if not there:
        raise Unread(f"{LIBRARY}: neither in the list of ldconfig nor in {LIBRARY_FOLDERS[0]}")
    file = os.path.basename(os.path.realpath(rooted(there[0])))
    match = re.fullmatch(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)", file)
    if not match:
        raise Unread(f"{there[0]}: leads to {file}, which has no version in its name")
    return {"driver.library": match.group(1)}


BOARDS = "/proc/driver/nvidia/gpus"
BOARD_MAJOR = 195
"""Of every /dev/nvidia0, /dev/nvidia1, ...: NVIDIA's, in Linux' Documentation/admin-guide."""


def read_board_numbers(request: Request, commands: Commands) -> Readings:
    """Which board is behind a device number: its UUID, as the kernel module says."""

    def uuid_of(text: str) -> str:
        match = re.search(r"^GPU UUID:\s*(GPU-[0-9a-f-]+)$", text, re.M)
        if not match:  # question marks, while no program has opened the board
            raise Unread(f"{BOARDS}: the module does not know the board's UUID yet")
        return match.group(1)

    boards = {}
    for folder in below(BOARDS):
        text = text_of(f"{BOARDS}/{folder}/information")
        minor = re.search(r"^Device Minor:\s*(\d+)$", text, re.M)
        if not minor:
            raise Unread(f"{BOARDS}/{folder}/information: no device minor")
        boards[f"{BOARD_MAJOR}:{minor.group(1)}"] = one(uuid_of, text)
    return {"driver.boards": boards}
