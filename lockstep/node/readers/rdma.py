"""RDMA devices and their ports."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from lockstep.node.readers.commands import Commands, installed
from lockstep.node.readers.reading import Readings, Request, Unread, each, one
from lockstep.node.readers.tree import (
    below,
    exists,
    found_by,
    is_folder,
    line_of,
    number_of,
    rooted,
    said,
)

RDMA = "/sys/class/infiniband"
RDMA_READINGS = (
    *(
        "rdma.count",
        "rdma.names",
        "rdma.firmware",
        "rdma.board",
        "rdma.type",
        "rdma.guid",
        "rdma.state",
    ),
    *("rdma.phys_state", "rdma.rate", "rdma.link_layer", "rdma.netdev", "rdma.device_files"),
)


def read_rdma(request: Request, commands: Commands) -> Readings:
    """Every RDMA device and its ports; a kernel that has the folder of no device has none."""
    if not is_folder("/sys/class"):
        raise Unread("/sys/class: no such file")
    readings: Readings = {name: {} for name in RDMA_READINGS}
    devices = below(RDMA)
    readings["rdma.count"], readings["rdma.names"] = len(devices), devices
    for device in devices:
        top = f"{RDMA}/{device}"
        readings["rdma.guid"][device] = one(line_of, f"{top}/node_guid")
        readings["rdma.firmware"][device] = one(line_of, f"{top}/fw_ver")
        # The driver's own: one that only stands for hardware (rxe) has neither.
        own = below(top)
        for name, file in (("rdma.board", "board_id"), ("rdma.type", "hca_type")):
            readings[name][device] = one(line_of, f"{top}/{file}") if file in own else ""
        for number in below(f"{top}/ports"):
            # The first port has the name of its device.
            port = device if number == "1" else f"{device}/{number}"
            for field in ("state", "phys_state", "rate", "link_layer"):
                path = f"{top}/ports/{number}/{field}"
                readings["rdma." + field][port] = one(behind_number, path)
            readings["rdma.netdev"][port] = netdev(top, number)
    readings["rdma.device_files"] = each(
        [f"/dev/infiniband/{file}" for file in below("/dev/infiniband")], mode_of
    )
    return readings


def behind_number(path: str) -> str:
    """Return what a file says without the kernel's number for it: ``4: ACTIVE``."""
    return line_of(path).split(": ", 1)[-1]


def netdev(device: str, port: str) -> str:
    """Return the network interface of a port; "" when it has none."""
    try:
        return line_of(f"{device}/ports/{port}/gid_attrs/ndevs/0")
    except Unread:  # InfiniBand proper: the kernel has it beside the device
        return ",".join(below(f"{device}/device/net"))


def mode_of(path: str) -> str:
    """Return the mode of a file in octal."""
    try:
        return f"{stat.S_IMODE(os.stat(rooted(path)).st_mode):o}"
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None


PORT_COUNTERS = (
    # reading, folder, the files whose sum it is
    (
        "rdma.errors",
        "counters",
        (
            *("symbol_error", "link_error_recovery", "local_link_integrity_errors"),
            *("port_rcv_errors", "port_rcv_remote_physical_errors"),
            "excessive_buffer_overrun_errors",
        ),
    ),
    ("rdma.link_downed", "counters", ("link_downed",)),
    ("rdma.discards", "counters", ("port_xmit_discards",)),
    ("rdma.ack_timeouts", "hw_counters", ("local_ack_timeout_err",)),
    ("rdma.sequence_errors", "hw_counters", ("packet_seq_err", "implied_nak_seq_err")),
)
PORT_READINGS = ("rdma.pkeys", "rdma.sm_lid", *(name for name, _, _ in PORT_COUNTERS))


def read_rdma_ports(request: Request, commands: Commands) -> Readings:
    """Counters of each RDMA port that has them, its partitions and its subnet manager."""
    readings: Readings = {name: {} for name in PORT_READINGS}
    for path in found_by(RDMA + "/*/ports/*"):
        device, number = path.split("/")[4], path.split("/")[6]
        port = device if number == "1" else f"{device}/{number}"
        for name, folder, wanted in PORT_COUNTERS:
            files = [f"{path}/{folder}/{file}" for file in wanted]
            there = [file for file in files if exists(file)]
            if there:
                readings[name][port] = one(sum_of, " ".join(there))
        readings["rdma.pkeys"][port] = one(partitions, f"{path}/pkeys")
        readings["rdma.sm_lid"][port] = one(said, f"{path}/sm_lid")
    return readings


def sum_of(paths: str) -> int:
    """Return the sum of the numbers that files hold."""
    return sum(number_of(path) for path in paths.split(" "))


def partitions(folder: str) -> str:
    """Return the partition keys in use."""
    keys = {line_of(f"{folder}/{entry}") for entry in below(folder)}
    return " ".join(sorted(keys - {"0x0000"}))


def read_rdma_settings(request: Request, commands: Commands) -> Readings:
    """Settings that the drivers of RDMA devices offer (devlink-dev(8)); none without its tool."""
    functions = {
        device: os.path.basename(os.path.realpath(rooted(f"{RDMA}/{device}/device")))
        for device in below(RDMA)
        if exists(f"{RDMA}/{device}/device/config")
    }
    shown: dict[str, Any] = {}
    if functions and installed("devlink"):
        status, out, err = commands.outcome("devlink", "-j", "dev", "param", "show")
        if status != 0 and "Failed to connect to devlink" not in err:
            raise Unread(f"devlink: exit {status}: {err.strip()[:200]}")
        shown = json.loads(out)["param"] if status == 0 else {}
    return {
        "rdma.settings": {
            device: {
                f"{row['name']} ({way['cmode']})": way["value"]
                for row in shown.get(f"pci/{function}", [])
                for way in row["values"]
            }
            for device, function in functions.items()
        }
    }
