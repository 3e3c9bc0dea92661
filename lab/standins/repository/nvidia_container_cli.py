#!/usr/bin/python3 -I
"""Stands in for nvidia-container-cli: mounts boards and the driver's libraries into a root folder.

Only what enroot's hook asks for: ``--user configure --no-cgroups --device=0,3 --compute ROOTFS``.
"""

import argparse
import os
import subprocess
import sys

VERSION = "@VERSION@"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def boards() -> list[str]:
    """UUIDs of the boards, in the order of their numbers."""
    done = subprocess.run(
        ["/usr/bin/nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"nvidia-container-cli: initialization error: nvml error: {done.stdout.strip()}")
    return done.stdout.split()


def chosen(wanted: str) -> list[int]:
    """Numbers of the boards that --device names: all, none, numbers, UUIDs."""
    there = boards()
    if wanted == "all":
        return list(range(len(there)))
    numbers = []
    for word in wanted.split(",") if wanted else ():
        if word in there:
            numbers.append(there.index(word))
        elif word.isdigit() and int(word) < len(there):
            numbers.append(int(word))
        else:
            sys.exit(f"nvidia-container-cli: device error: {word}: unknown device")
    return numbers


def mount(path: str, rootfs: str) -> None:
    """Show a file of the node in the container, at the same place."""
    target = rootfs + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "a"):
        pass
    subprocess.run(["/usr/bin/mount", "--bind", path, target], check=True)


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(prog="nvidia-container-cli")
    parser.add_argument("--version", "-V", action="version", version=f"cli-version: {VERSION}")
    parser.add_argument("--user", action="store_true")
    configure = parser.add_subparsers(required=True).add_parser("configure")
    configure.add_argument("--device", default="")
    for name in ("--no-cgroups", "--compute", "--utility"):
        configure.add_argument(name, action="store_true")
    configure.add_argument("rootfs")
    options = parser.parse_args()
    links = [f"{LIBRARIES}/{name}.so.1" for name in ("libnvidia-ml", "libcuda")]
    for path in (
        *(f"/dev/nvidia{number}" for number in chosen(options.device)),
        "/dev/nvidiactl",
        *(os.path.realpath(link) for link in links if os.path.exists(link)),
    ):
        mount(path, options.rootfs)


if __name__ == "__main__":
    main()
