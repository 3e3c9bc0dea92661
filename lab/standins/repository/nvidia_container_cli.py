#!/usr/bin/python3 -I
"""Simulates nvidia-container-cli: mounts GPUs and driver libraries into a root folder.

It supports only the call of enroot's hook:
``--user configure --no-cgroups --device=0,3 --compute ROOTFS``.
"""

import argparse
import os
import subprocess
import sys

VERSION = "@VERSION@"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def gpus() -> list[str]:
    """Return the UUIDs of the GPUs, sorted by index."""
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
    """Return the indices of the GPUs that --device selects: all, none, indices, UUIDs."""
    there = gpus()
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
    """Bind-mount a file of the node at the same path in the container."""
    target = rootfs + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "a"):
        pass
    subprocess.run(["/usr/bin/mount", "--bind", path, target], check=True)


def main() -> None:
    """Run one command."""
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
