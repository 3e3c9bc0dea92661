#!/usr/bin/python3 -I
"""Simulates nvidia-ctk: writes a CDI specification of the simulated GPUs.

A container gets the GPUs' device nodes, the driver's libraries, and the module and state file of
the simulated nvidia-smi, which needs Python in the container.
"""

import argparse
import json
import os
import re
import subprocess
import sys

VERSION = "@VERSION@"
STATE = "/var/lib/lockstep-standin/gpus.json"
SMI_MODULE = "/usr/lib/lockstep-standin/nvidia_smi.py"
"""Module of the simulated nvidia-smi; the real program is one file."""
DEFAULT_OUTPUT = "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"
FOLDERS = ("/etc/cdi", "/var/run/cdi")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def gpus() -> list[tuple[int, str, str]]:
    """Return (slot, UUID) of the GPUs; exit if nvidia-smi fails."""
    done = subprocess.run(
        ["/usr/bin/nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"failed to generate CDI spec: failed to initialize NVML: {done.stdout.strip()}")
    with open(STATE) as file:
        slots = [slot for slot, gpu in enumerate(json.load(file)["gpus"]) if gpu["present"]]
    rows = [line.split(", ") for line in done.stdout.splitlines()]
    return [(slots[int(index)], index, uuid) for index, uuid in rows]


def mig_names() -> dict[str, list[str]]:
    """Return GPU index -> names of its MIG devices; "0:1" is the second one of GPU 0."""
    done = subprocess.run(
        ["/usr/bin/nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True, check=False
    )
    found: dict[str, list[str]] = {}
    gpu = ""
    for line in done.stdout.splitlines():
        if line.startswith("GPU "):
            gpu = line.partition(":")[0].removeprefix("GPU ")
        else:
            names = found.setdefault(gpu, [])
            names.append(f"{gpu}:{len(names)}")
    return found


def node(path: str) -> list[str]:
    """Return the lines of one device node."""
    device = os.stat(path).st_rdev
    return [
        f"            - path: {path}",
        "              type: c",
        f"              major: {os.major(device)}",
        f"              minor: {os.minor(device)}",
        "              permissions: rw",
    ]


def specification() -> str:
    """Return the text of the specification."""
    lines = ["---", "cdiVersion: 0.5.0", "kind: nvidia.com/gpu", "devices:"]
    found = gpus()
    # A GPU with MIG devices is available only through these.
    divided = mig_names()
    names = [
        (name, [slot]) for slot, index, uuid in found for name in divided.get(index, (index, uuid))
    ]
    names.append(("all", [slot for slot, _, _ in found]))
    for name, slots in names:
        quoted = f'"{name}"' if name[0].isdigit() else name
        lines += [f"    - name: {quoted}", "      containerEdits:", "        deviceNodes:"]
        for slot in slots:
            lines += node(f"/dev/nvidia{slot}")
    lines += ["containerEdits:", "    env:", "        - NVIDIA_VISIBLE_DEVICES=void"]
    lines += ["    deviceNodes:", *(line[4:] for line in node("/dev/nvidiactl")), "    mounts:"]
    module = [SMI_MODULE] if os.path.exists(SMI_MODULE) else []
    for path in ("/usr/bin/nvidia-smi", *module, STATE, *libraries()):
        lines += [
            f"        - hostPath: {path}",
            f"          containerPath: {path}",
            "          options:",
            *(f"            - {option}" for option in ("ro", "nosuid", "nodev", "bind")),
        ]
    return "\n".join(lines) + "\n"


def libraries() -> list[str]:
    """Return the files of the driver libraries, with the version in their names."""
    links = [f"{LIBRARIES}/{name}.so.1" for name in ("libnvidia-ml", "libcuda")]
    return [os.path.realpath(link) for link in links if os.path.exists(link)]


def generate(output: str) -> None:
    """Write the specification atomically, or print it."""
    text = specification()
    if not output:
        print(text, end="")
        return
    os.makedirs(os.path.dirname(output), exist_ok=True)
    with open(f"{output}.new", "w") as file:
        file.write(text)
    os.replace(f"{output}.new", output)
    print(f"Generated CDI spec with version 0.5.0 at {output}", file=sys.stderr)


def listing() -> None:
    """Print the names of all devices of all specifications."""
    found = []
    for folder in FOLDERS:
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            with open(os.path.join(folder, name)) as file:
                text = file.read()
            kind = re.search(r"^kind: (\S+)$", text, re.M)
            if kind:
                devices = re.findall(r'^    - name: "?([^"\n]+)"?$', text, re.M)
                found += [f"{kind.group(1)}={device}" for device in devices]
    print(f"Found {len(found)} CDI devices", file=sys.stderr)
    print("\n".join(found))


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="nvidia-ctk")
    version = f"NVIDIA Container Toolkit CLI version {VERSION}"
    parser.add_argument("--version", "-v", action="version", version=version)
    commands = parser.add_subparsers(required=True)
    cdi = commands.add_parser("cdi").add_subparsers(required=True, dest="verb")
    cdi.add_parser("list")
    making = cdi.add_parser("generate")
    making.add_argument("--output", default=os.environ.get(DEFAULT_OUTPUT, ""))
    options = parser.parse_args()
    if options.verb == "list":
        listing()
    else:
        generate(options.output)


if __name__ == "__main__":
    main()
