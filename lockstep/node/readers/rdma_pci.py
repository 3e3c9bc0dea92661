"""How RDMA devices sit on the PCI bus, and near which boards."""

from __future__ import annotations

import os
import struct

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.rdma import RDMA
from lockstep.node.readers.reading import Readings, Request, Unread, one
from lockstep.node.readers.tree import (
    below,
    bytes_of,
    exists,
    found_by,
    line_of,
    number_of,
    resolved,
)

PCI_READINGS = ("rdma.pcie", "rdma.pcie_most", "rdma.pci_control", "rdma.numa", "rdma.nearest_gpus")


def read_rdma_pci(request: Request, commands: Commands) -> Readings:
    """How each RDMA device sits in the machine; "" for one that only stands for hardware."""
    readings: Readings = {name: {} for name in PCI_READINGS}
    boards = gpu_folders()
    for device in below(RDMA):
        top = f"{RDMA}/{device}/device"
        real = exists(f"{top}/config")
        folder = resolved(top)
        for name, reader in (
            ("rdma.pcie", link),
            ("rdma.pcie_most", most_of_link),
            ("rdma.pci_control", device_control),
            ("rdma.numa", lambda folder: number_of(folder + "/numa_node")),
            ("rdma.nearest_gpus", lambda folder: nearest(folder, boards)),
        ):
            readings[name][device] = one(reader, folder) if real else ""
    return readings


def lanes(folder: str, which: str) -> tuple[float, int]:
    """Return speed in GT/s and number of lanes of a PCIe link, ``current`` or ``max``."""
    speed, width = (line_of(f"{folder}/{which}_link_{part}") for part in ("speed", "width"))
    try:
        return float(speed.split(" ")[0]), int(width)
    except ValueError:
        raise Unread(f"{folder}: {which} link is {speed}, {width}") from None


def link(folder: str) -> str:
    """Return a PCIe link as it is."""
    speed, width = lanes(folder, "current")
    return f"{speed:g} GT/s x{width}"


def most_of_link(folder: str) -> str:
    """Return what both ends of a PCIe link can do."""
    ends = [lanes(folder, "max")]
    if exists(f"{os.path.dirname(folder)}/max_link_speed"):
        ends.append(lanes(os.path.dirname(folder), "max"))
    return f"{min(speed for speed, _ in ends):g} GT/s x{min(width for _, width in ends)}"


CAPABILITIES, EXPRESS, DEVICE_CONTROL = 0x34, 0x10, 8
"""Places in the configuration space (linux/pci_regs.h)."""


def device_control(folder: str) -> str:
    """Return how a PCIe device may read and order: bits of its Device Control register."""
    space = bytes_of(f"{folder}/config", 256)
    if len(space) < 256:
        raise Unread(f"{folder}/config: {len(space)} bytes, the rest is for root only")
    place = space[CAPABILITIES]
    while place and space[place] != EXPRESS:
        place = space[place + 1]
    if not place:
        return ""
    bits = struct.unpack_from("<H", space, place + DEVICE_CONTROL)[0]
    read, payload = 128 << (bits >> 12 & 7), 128 << (bits >> 5 & 7)
    return f"MaxReadReq {read}, MaxPayload {payload}, RlxdOrd{'+' if bits & 0x10 else '-'}"


def gpu_folders() -> list[str]:
    """Return where each NVIDIA board sits below /sys/devices, in the order of its address."""
    return [
        resolved(path)
        for path in found_by("/sys/bus/pci/devices/*")
        if line_of(path + "/vendor") == "0x10de" and line_of(path + "/class")[:6] == "0x0302"
    ]


def nearest(folder: str, boards: list[str]) -> str:
    """Return the boards that share the most bridges with a device; "none" below one root port."""
    own = folder.split("/")
    shared = {}
    for index, board in enumerate(boards):
        both = os.path.commonpath([folder, board]).split("/")
        # Up to the host bridge ("", sys, devices, pci...) everything is shared by many.
        if 4 < len(both) < len(own):
            shared[f"gpu{index}"] = len(both)
    closest = max(shared.values(), default=0)
    return ", ".join(name for name, number in shared.items() if number == closest) or "none"
