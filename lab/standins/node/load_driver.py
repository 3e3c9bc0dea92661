#!/usr/bin/python3 -IS
"""Simulates loading NVIDIA's kernel module at boot: writes /proc files and resets GPU settings.

The version is that of the installed library package, like a module built on a real node. Without
the package, it is the version in the node's archive.
"""

import importlib
import os
import re
import subprocess
import sys
from typing import Any

FOLDER = "/proc/driver"
STATE = "/var/lib/lockstep-standin/gpus.json"
STANDINS = "/usr/lib/lockstep-standin"
FABRIC_MANAGER = "/usr/bin/nv-fabricmanager"
STATUS = "/var/lib/dpkg/status"
PACKAGE = "libnvidia-ml1"
WITHOUT_PACKAGE = "@VERSION@"


def module_version() -> str:
    """Return the upstream version of the installed library package."""
    with open(STATUS, encoding="utf-8") as file:
        for stanza in file.read().split("\n\n"):
            if not stanza.startswith(f"Package: {PACKAGE}\n"):
                continue
            version = re.search(r"^Version: (?:\d+:)?([0-9.]+)", stanza, re.M)
            gone = re.search(r"^Status: .* (not-installed|config-files)$", stanza, re.M)
            if version and not gone:
                return version.group(1)
    return WITHOUT_PACKAGE


def nvidia_smi() -> Any:
    """Import the simulated nvidia-smi, which reads the state file."""
    sys.path.insert(0, STANDINS)
    return importlib.import_module("nvidia_smi")


def write(path: str, text: str) -> None:
    """Write a file below FOLDER that all users can read, as in /proc."""
    path = os.path.join(FOLDER, "nvidia", path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o444)


def main() -> None:
    """Simulate a boot once."""
    version = module_version()
    smi = nvidia_smi()
    smi.boot(STATE)
    smi.set_values(STATE, "node", [f"loaded_version={version}"])
    state = smi.read_state(STATE)
    if os.path.exists(FABRIC_MANAGER) and state.node["nvswitches"] != "0":
        # GPUs wait for the fabric manager. If it is not installed, they keep their initial state,
        # so that GPUs work in a lab without NVIDIA's stack.
        smi.set_values(STATE, "all", ["fabric.state=In Progress", "fabric.status=N/A"])
    if not os.path.ismount(FOLDER):
        # Mount over an existing folder, because programs cannot create folders in /proc.
        mount = ["mount", "-t", "tmpfs", "-o", "mode=555,size=1m", "lockstep-standin", FOLDER]
        subprocess.run(mount, check=True)
    write(
        "version",
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  "
        "(dvs-builder@U22-I3-AF02-24-4)  Tue Apr  8 12:18:43 UTC 2025\n"
        "GCC version:  gcc version 14.2.0 (Debian 14.2.0-19) \n",
    )
    write("params", 'EnableMSI: 1\nModifyDeviceFiles: 1\nRegistryDwords: ""\n')
    for gpu in state.gpus:
        if gpu.present:
            bus = gpu.bus_id[4:].lower()
            write(
                f"gpus/{bus}/information",
                f"Model: \t\t {gpu.get('name')}\nGPU UUID: \t {gpu.get('uuid')}\n"
                f"Video BIOS: \t {gpu.get('vbios_version').lower()}\nBus Type: \t PCIe\n"
                f"Bus Location: \t {bus}\nDevice Minor: \t {gpu.slot}\n"
                f"GPU Firmware: \t {version}\nGPU Excluded:\t No\n",
            )


if __name__ == "__main__":
    main()
