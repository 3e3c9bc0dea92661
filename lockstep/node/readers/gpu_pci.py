"""Boards as the PCI bus has them, with the bridges above them."""

from __future__ import annotations

import re
import struct
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.tree import (
    below,
    bytes_of,
    exists,
    is_folder,
    line_of,
    number_of,
    resolved,
    text_of,
)

PCI = "/sys/bus/pci/devices"
NVIDIA, DISPLAY = "0x10de", ("0x0300", "0x0302")
"""Vendor of the boards; classes VGA compatible and 3D controller."""
GPU_PCI_READINGS = (
    *("gpu.pci.boards", "gpu.pci.bar_mib", "gpu.pci.numa_node", "gpu.pci.iommu"),
    *("gpu.pci.width", "gpu.pci.width_max", "gpu.pci.speed", "gpu.pci.speed_max"),
    *("gpu.pci.redirects", "gpu.pci.correctable", "gpu.pci.nonfatal", "gpu.pci.fatal"),
)


def read_pci(request: Request, commands: Commands) -> Readings:
    """The boards as the kernel's PCI bus has them, with every bridge above them; by address."""
    if not is_folder(PCI):
        raise Unread(f"{PCI}: no such file")
    boards = {
        address: line_of(f"{PCI}/{address}/device")
        for address in below(PCI)
        if line_of(f"{PCI}/{address}/vendor") == NVIDIA
        and line_of(f"{PCI}/{address}/class").startswith(DISPLAY)
    }
    tops: dict[str, str] = {}
    ports: set[str] = set()
    above: set[str] = set()
    for board in boards:
        path = re.findall(r"/([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=/|$)", real(board))
        above.update(path[:-1])
        # From the board upwards every second step is a link, the others are inside a switch.
        tops.update((path[step], path[step - 1]) for step in range(len(path) - 3, 0, -2))
        ports.update(path[2:-1:2])
    return {
        "gpu.pci.boards": boards,
        "gpu.pci.bar_mib": each(list(boards), largest_bar),
        "gpu.pci.numa_node": each(list(boards), numa_node),
        "gpu.pci.iommu": each(list(boards), iommu),
        "gpu.pci.width": on_both("current_link_width", tops),
        "gpu.pci.width_max": on_both("max_link_width", tops),
        "gpu.pci.speed": on_both("current_link_speed", tops),
        "gpu.pci.speed_max": on_both("max_link_speed", tops),
        "gpu.pci.redirects": each(sorted(ports), redirected),
        **{f"gpu.pci.{kind}": pci_errors(kind, {*boards, *above}) for kind in PCI_ERRORS},
    }


def real(address: str) -> str:
    """Return the folder of a device, which has all bridges above it in its path."""
    return resolved(f"{PCI}/{address}")


def on_both(file: str, tops: dict[str, str]) -> dict[str, Any]:
    """Return the lesser figure of both ends of each link: lower end -> lanes, or GT/s."""

    def lesser(end: str) -> float:
        return min(figure(f"{PCI}/{device}/{file}") for device in (end, tops[end]))

    return each(sorted(tops), lesser)


def figure(path: str) -> float:
    """Return the number that a file begins with."""
    text = line_of(path)
    try:
        return float(text.split(" ")[0])
    except ValueError:
        raise Unread(f"{path}: {text[:60]!r}") from None


def numa_node(board: str) -> int:
    """Return the NUMA node of a board; -1 where the firmware names none."""
    return number_of(f"{PCI}/{board}/numa_node")


def largest_bar(board: str) -> int:
    """Return the size of the largest region that the CPUs see of a board, in MiB."""
    regions = [line.split() for line in text_of(f"{PCI}/{board}/resource").splitlines()]
    return max(int(end, 16) - int(start, 16) + 1 for start, end, _ in regions) >> 20


def iommu(board: str) -> str:
    """Return how the IOMMU translates for a board; "none" without one."""
    group = f"{PCI}/{board}/iommu_group"
    return line_of(group + "/type") if exists(group) else "none"


EXTENDED, ACS, REDIRECTS = 0x100, 0x0D, 0x04 | 0x08 | 0x10
"""PCI Express Base Specification: where extended capabilities start, Access Control Services, and
its bits that send requests, completions and what comes from below upstream."""


def redirected(bridge: str) -> bool:
    """Say whether a bridge sends traffic between its devices up to the root."""
    path = f"{PCI}/{bridge}/config"
    config = bytes_of(path, 4096)
    if len(config) <= EXTENDED:
        raise Unread(f"{path}: {len(config)} bytes, so no extended capabilities: not read as root")
    at = EXTENDED
    for _ in range(64):  # a ring of capabilities ends nowhere
        header = struct.unpack_from("<I", config, at)[0]
        if header & 0xFFFF == ACS:
            return bool(struct.unpack_from("<H", config, at + 6)[0] & REDIRECTS)
        at = header >> 20
        if not EXTENDED <= at <= len(config) - 8:
            break
    return False


PCI_ERRORS = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}


def pci_errors(kind: str, devices: set[str]) -> dict[str, Any]:
    """Return errors since the boot by device; only where the kernel counts them, not firmware."""

    def total(device: str) -> int:
        path = f"{PCI}/{device}/aer_dev_{kind}"
        match = re.search(rf"^TOTAL_ERR_{PCI_ERRORS[kind]} (\d+)$", text_of(path), re.MULTILINE)
        if not match:
            raise Unread(f"{path}: no total")
        return int(match.group(1))

    counted = f"aer_dev_{kind}"
    there = [one for one in sorted(devices) if exists(f"{PCI}/{one}/{counted}")]
    return each(there, total)
