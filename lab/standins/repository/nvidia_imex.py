#!/usr/bin/python3 -IS
"""Simulates NVIDIA's IMEX daemon, which needs a list of nodes and a driver of its version."""

import os
import signal
import sys

VERSION = "@VERSION@"
LOADED = "/proc/driver/nvidia/version"
PID_FILE = "/var/run/nvidia-imex/nvidia-imex.pid"


def settings(path: str) -> dict[str, str]:
    """Return the NAME=VALUE settings of a configuration file."""
    with open(path) as file:
        lines = [line.strip() for line in file if not line.startswith("#")]
    pairs = [line.partition("=") for line in lines if "=" in line]
    return {name: value for name, _, value in pairs}


def main() -> int:
    """Start as a daemon, or print why it cannot."""
    if "--version" in sys.argv:
        print(f"IMEX version is: {VERSION}")
        return 0
    configuration = settings(sys.argv[sys.argv.index("-c") + 1])
    with open(configuration["IMEX_NODE_CONFIG_FILE"]) as file:
        nodes = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    if not nodes:
        print("no nodes in the node configuration file", file=sys.stderr)
        return 1
    with open(LOADED) as file:
        if f" {VERSION} " not in file.readline():
            print(f"IMEX {VERSION} does not match the loaded driver", file=sys.stderr)
            return 1
    child = os.fork()
    if child:
        os.makedirs(os.path.dirname(PID_FILE), exist_ok=True)
        with open(PID_FILE, "w") as file:
            file.write(f"{child}\n")
        return 0
    os.setsid()
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
