"""One recorded compute tray of a GB200 rack, read by the program that runs on nodes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from lab.nvml import smi, state
from lab.nvml.recorded import from_xml
from lockstep.node.readers import collect, commands, tree
from tests.nvml.programs import CACHE, SimulatedNode

CAPTURE = Path(__file__).parents[1] / "captures" / "gb200"
BRANCH = "555"
"""The newest nvidia-smi at hand: it prints what the recording of 580 has, except newer fields."""
ASKED = (
    frozenset(
        {
            *(name for _, names in collect.OF_NVIDIA_SMI for name in names),
            *("cpu.online", "numa.cpus", "cpu.smt", "hugepages", "hugepages.free"),
            *("kernel.page_size", "kernel.release"),
        }
    )
    - collect.OF_ROLES
)
NEWER = {"gpu.fabric.clique": "fabric.cliqueId", "gpu.fabric.cluster": "fabric.clusterUuid"}
"""Reading -> the field of the recording from which it comes, because 555 cannot be asked for it."""
MEMORY_NODES = 32
"""NUMA nodes without CPUs: eight for the memory of each GPU."""
HUGE = {2048: 0, 524288: 32, 16777216: 0}
"""KiB of a huge page -> pages on each NUMA node with CPUs."""


def read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the readings of the tray's GPUs, processors, memory and kernel."""
    node = SimulatedNode(folder, "gb200", 4, BRANCH)
    text = (CAPTURE / "qx.xml").read_text(encoding="utf-8")
    recording = from_xml(text, "gb200/qx.xml")
    node.state.write_text(state.to_text(recording.to_state()), encoding="utf-8")
    root, programs = folder / "root", folder / "bin"
    for path, content in _files(recording.node["driver_version"]).items():
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / path[1:]).write_text(content, encoding="utf-8")
    programs.mkdir()
    settings = " ".join(f"{key}={value}" for key, value in node.environment.items())
    program = programs / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\nexport {settings}\nexec {smi.program(BRANCH, CACHE)} "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    kernel = os.uname()
    with monkeypatch.context() as patch:
        patch.setattr(tree, "ROOT", str(root))
        patch.setattr(commands, "PATH", str(programs))
        patch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 65536}[name])
        patch.setattr(os, "uname", lambda: os.uname_result((*kernel[:2], RELEASE, *kernel[3:])))
        readings: dict[str, Any] = collect.collect({}, only=ASKED)["readings"]
    newer = {
        name: {"value": {f"gpu{slot}": gpu[field] for slot, gpu in recording.gpus.items()}}
        for name, field in NEWER.items()
    }
    return {name: readings[name] for name in ASKED if name in readings} | newer


RELEASE = "6.8.0-149-generic-64k"
"""By hand: the form of the releases of linux-image-generic-64k in noble-updates."""


def _files(driver: str) -> dict[str, str]:
    """Return what /proc and /sys show, as lscpu has it."""
    rows = dict(
        re.split(r":\s+", line, maxsplit=1)
        for line in (CAPTURE / "lscpu.txt").read_text(encoding="utf-8").splitlines()
    )
    sockets, cores = int(rows["Socket(s)"]), int(rows["Core(s) per socket"])
    top = "/sys/devices/system"
    lists = [f"{first * cores}-{(first + 1) * cores - 1}" for first in range(sockets)]
    files = {
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64"
        f"  {driver}  Release Build\n",
        "/proc/cmdline": "quiet\n",
        "/proc/sys/kernel/random/boot_id": "0\n",
        "/proc/cpuinfo": "processor\t: 0\nCPU part\t: 0xd4f\n",
        f"{top}/cpu/online": f"{rows['On-line CPU(s) list']}\n",
        f"{top}/cpu/smt/control": "notsupported\n",
    }
    for number in range(sockets + MEMORY_NODES):
        folder = f"{top}/node/node{number}"
        files[f"{folder}/cpulist"] = f"{lists[number]}\n" if number < sockets else "\n"
        for kib, pages in HUGE.items():
            for name in ("nr", "free"):
                path = f"{folder}/hugepages/hugepages-{kib}kB/{name}_hugepages"
                files[path] = f"{pages if number < sockets else 0}\n"
    return files
