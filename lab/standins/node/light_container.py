#!/usr/bin/python3 -I
"""Prepares the container of a runc call for a machine that shares the host's kernel (lab only).

Without control group controllers, runc cannot set limits, so they are taken out of the container's
specification (runtime-spec: config.md, config-linux.md). Rules of devices stay. The value for the
kernel's OOM killer cannot be lower than that of this process (proc_pid_oom_score_adj(5)).

Containers see /proc/driver/nvidia, as with the real driver, whose files are in every procfs.
"""

import json
import os
import sys
from typing import Any

DRIVER = "/proc/driver"
"""Here the lab has the simulated driver's folder, on a file system of its own."""
CONTROLLERS = "/sys/fs/cgroup/cgroup.controllers"


def bundle(arguments: list[str]) -> str:
    """Return the folder of a runc call: runc-create(8), option --bundle."""
    for place, word in enumerate(arguments):
        if word in ("--bundle", "-b"):
            return arguments[place + 1]
        if word.startswith("--bundle="):
            return word.partition("=")[2]
    return os.getcwd()


def read(path: str) -> str:
    """Return the text of a file of the kernel."""
    with open(path, encoding="ascii") as file:
        return file.read()


def show_driver(spec: "dict[str, Any]", folder: str) -> None:
    """Add a hook that mounts the driver's folder for later hooks, too (config.md, createContainer).

    Args:
        spec: the container's specification.
        folder: the bundle's folder.
    """
    mounts = [one["destination"] for one in spec.get("mounts", []) if one.get("type") == "proc"]
    if mounts != ["/proc"] or not os.path.isdir(f"{DRIVER}/nvidia"):
        return
    target = os.path.join(folder, spec["root"]["path"]) + DRIVER
    hook = {"path": "/usr/bin/mount", "args": ["mount", "--bind", DRIVER, target]}
    spec.setdefault("hooks", {}).setdefault("createContainer", []).insert(0, hook)


def main() -> None:
    """Change one specification."""
    folder = bundle(sys.argv[1:])
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    process = spec.get("process", {})
    if "oomScoreAdj" in process:
        process["oomScoreAdj"] = max(process["oomScoreAdj"], int(read("/proc/self/oom_score_adj")))
    if not read(CONTROLLERS).split():
        resources = spec.get("linux", {}).get("resources", {})
        for name in [name for name in resources if name != "devices"]:
            del resources[name]
    show_driver(spec, folder)
    unfinished = f"{path}.lab"
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    os.replace(unfinished, path)


if __name__ == "__main__":
    main()
