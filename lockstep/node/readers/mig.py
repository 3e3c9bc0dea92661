"""What boards are divided into (MIG)."""

from __future__ import annotations

import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.gpu import LOST
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import found_by, text_of

BOARD = re.compile(r"GPU (\d+): .*\(UUID: (GPU-[^)\s]+)\)")
MIG_DEVICE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+:")


def read_mig_devices(request: Request, commands: Commands) -> Readings:
    """What each board is divided into; an undivided one into nothing.

    A GPU instance without a compute instance is no device: no job can use it.
    """
    status, out, err = commands.outcome("nvidia-smi", "-L")
    boards = mig_devices(out)
    if status != 0 and not (boards and LOST.search(out)):
        said = (err.strip() or out.strip() or "no message").splitlines()[0]
        raise Unread(f"nvidia-smi: exit {status}: {said[:200]}")
    return {"gpu.mig.devices": {"gpu" + index: found for index, _, found in boards}}


def mig_devices(listed: str) -> list[tuple[str, str, list[str]]]:
    """Return index, UUID and the sorted profiles of each board that ``nvidia-smi -L`` lists."""
    boards: list[tuple[str, str, list[str]]] = []
    for line in listed.splitlines():
        board, device = BOARD.match(line), MIG_DEVICE.match(line)
        if board:
            boards.append((board.group(1), board.group(2), []))
        elif device and boards:
            boards[-1][2].append(device.group(1))
            boards[-1][2].sort()
        elif line.strip() and not LOST.search(line):
            raise Unread(f"nvidia-smi: -L, not a board nor a MIG device: {line.strip()[:120]}")
    return boards


INSTANCES = "/proc/driver/nvidia/capabilities/gpu*/mig/gi*"


def read_instance_files(request: Request, commands: Commands) -> Readings:
    """The capability files of MIG instances: a process that may open them may use the slice."""
    files = []
    for pattern in (f"{INSTANCES}/access", f"{INSTANCES}/ci*/access"):
        for path in found_by(pattern):
            minor = re.search(r"^DeviceFileMinor:\s*(\d+)$", text_of(path), re.M)
            if not minor:
                raise Unread(f"{path}: no minor of a device file")
            files.append(f"/dev/nvidia-caps/nvidia-cap{minor.group(1)}")
    return {"driver.instance_files": sorted(files)}
