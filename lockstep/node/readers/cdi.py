"""What the CDI specification gives to containers."""

from __future__ import annotations

import json
import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import below, text_of

CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
CDI_KIND = "nvidia.com/gpu"


def read_cdi(request: Request, commands: Commands) -> Readings:
    """Which boards and which driver the CDI specification gives to containers, name by name.

    Both of nvidia-ctk's formats; YAML by its lines, which is all that the standard library can.
    """
    devices: dict[str, list[str]] = {}
    libraries: set[str] = set()
    found = False
    for folder in CDI_FOLDERS:
        for name in below(folder):
            text = text_of(f"{folder}/{name}")
            if CDI_KIND not in text:
                continue
            found = True
            libraries |= set(re.findall(r"libnvidia-ml\.so\.(\d+\.[0-9.]+\d)", text))
            for device, paths in cdi_devices(text, name).items():
                devices.setdefault(device, []).extend(paths)
    if not found:
        raise Unread(f"no specification of {CDI_KIND} in {' or '.join(CDI_FOLDERS)}")
    return {
        "cdi.devices": {device: sorted(paths) for device, paths in devices.items()},
        "cdi.libraries": sorted(libraries),
    }


def cdi_devices(text: str, name: str) -> dict[str, list[str]]:
    """Return device name -> its device nodes."""
    if name.endswith(".json"):
        return {
            str(device["name"]): [
                node["path"] for node in device.get("containerEdits", {}).get("deviceNodes", [])
            ]
            for device in json.loads(text).get("devices", [])
        }
    devices: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        if re.match(r"[a-zA-Z]", line):  # a key of the whole file: what follows is every device's
            current = ""
        device = re.match(r"\s*-?\s*name:\s*[\"']?([^\"'\s]+)", line)
        node = re.match(r"\s*-?\s*path:\s*[\"']?(/dev/[^\"'\s]+)", line)
        if device:
            current = device.group(1)
            devices[current] = []
        elif node and current:
            devices[current].append(node.group(1))
    return devices
