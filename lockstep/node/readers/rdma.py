"""RDMA devices, their ports, and RoCE congestion control."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands, failure, installed
from lockstep.node.readers.reading import (
    ABSENT,
    NOT_SUPPORTED,
    Readings,
    Request,
    Unread,
    each,
    one,
)
from lockstep.node.readers.tree import (
    below,
    exists,
    found_by,
    is_folder,
    line_of,
    mode_of,
    number_of,
    resolved,
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
    """Every RDMA device and its ports; none if there is no /sys/class/infiniband."""
    if not is_folder("/sys/class"):
        raise Unread("/sys/class: no such file")
    devices, of_port = below(RDMA), ports()
    files = [f"/dev/infiniband/{file}" for file in below("/dev/infiniband")]
    return {
        "rdma.count": len(devices),
        "rdma.names": devices,
        "rdma.guid": each(devices, lambda device: line_of(f"{RDMA}/{device}/node_guid")),
        "rdma.firmware": each(devices, lambda device: line_of(f"{RDMA}/{device}/fw_ver")),
        # A virtual device (rxe) has neither board_id nor hca_type.
        "rdma.board": each(devices, lambda device: line_of(f"{RDMA}/{device}/board_id", "")),
        "rdma.type": each(devices, lambda device: line_of(f"{RDMA}/{device}/hca_type", "")),
        **{
            # Without the leading number: "4: ACTIVE" -> "ACTIVE".
            f"rdma.{field}": {
                port: one(lambda path: line_of(path).split(": ", 1)[-1], f"{folder}/{field}")
                for port, folder in of_port.items()
            }
            for field in ("state", "phys_state", "rate", "link_layer")
        },
        "rdma.netdev": {port: netdev(folder) for port, folder in of_port.items()},
        "rdma.device_files": each(files, lambda path: mode_of(os.stat(rooted(path)))),
    }


def ports() -> dict[str, str]:
    """Return each port's folder, keyed by name: ``mlx5_0`` for port 1, ``mlx5_0/2`` for port 2."""
    found = {}
    for path in found_by(RDMA + "/*/ports/*"):
        device, number = path.split("/")[4], path.split("/")[6]
        found[device if number == "1" else f"{device}/{number}"] = path
    return found


def netdev(port: str) -> str:
    """Return a port's network interface, given the port's folder; "" if there is none."""
    try:
        return line_of(f"{port}/gid_attrs/ndevs/0")
    except Unread:  # InfiniBand: the interface is listed under the PCI device
        return ",".join(below(f"{port.rsplit('/', 2)[0]}/device/net"))


PORT_COUNTERS = (
    # reading, folder, the counter files to add up
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
    """Error counters, partition keys and subnet manager LID of each RDMA port."""
    readings: Readings = {name: {} for name in PORT_READINGS}
    for port, path in ports().items():
        for name, folder, files in PORT_COUNTERS:
            there = [f for f in (f"{path}/{folder}/{file}" for file in files) if exists(f)]
            if there:
                readings[name][port] = one(lambda paths: sum(map(number_of, paths)), there)
        readings["rdma.pkeys"][port] = one(partitions, f"{path}/pkeys")
        readings["rdma.sm_lid"][port] = one(said, f"{path}/sm_lid")
    return readings


def partitions(folder: str) -> str:
    """Return the partition keys of a port, without the empty entries of its table."""
    keys = {line_of(f"{folder}/{entry}") for entry in below(folder)}
    return " ".join(sorted(keys - {"0x0000"}))


def read_rdma_settings(request: Request, commands: Commands) -> Readings:
    """Driver parameters of each RDMA device, from devlink-dev(8); none without devlink."""
    functions = {
        device: os.path.basename(resolved(f"{RDMA}/{device}/device"))
        for device in below(RDMA)
        if exists(f"{RDMA}/{device}/device/config")
    }
    shown: dict[str, Any] = {}
    if functions and installed("devlink"):
        status, out, err = commands.outcome("devlink", "-j", "dev", "param", "show")
        if status == 0:
            shown = json.loads(out)["param"]
        elif "Failed to connect to devlink" not in err:
            raise failure("devlink", status, out, err)
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


DRIVER = "mlx5_core"
"""The driver of NVIDIA's adapters, which DOCA-OFED and MLNX_OFED bring, too."""
DISTRIBUTION = "kernel"
"""The folder of the modules that belong to a kernel, below the kernel's own folder."""


def read_driver_on_disk(request: Request, commands: Commands) -> Readings:
    """The RDMA driver that the next boot loads: its folder and version, and the OFED packages."""
    kernel = os.uname().release
    found = {"folder": ABSENT, "version": ABSENT, "ofed": ABSENT}
    if exists(f"/lib/modules/{kernel}/modules.dep"):
        status, out, err = commands.outcome("modinfo", "-k", kernel, DRIVER)
        if status == 0:
            shown = dict(re.findall(r"^(filename|version|srcversion):[ \t]*(.*)$", out, re.M))
            inside = shown.get("filename", "").partition(f"/lib/modules/{kernel}/")[2]
            folder = os.path.dirname(inside)
            # Without a path below it, the driver is built into the kernel.
            own = not folder or folder.startswith(f"{DISTRIBUTION}/")
            found["folder"] = DISTRIBUTION if own else folder
            found["version"] = shown.get("version") or shown.get("srcversion") or "none"
        elif f"{DRIVER} not found" not in err:
            raise failure("modinfo", status, out, err)
    if installed("ofed_info"):
        found["ofed"] = commands.run("ofed_info", "-s").strip().rstrip(":")
    return {"rdma.driver_on_disk": found}


ROCE_READINGS = (
    "rdma.pfc",
    "rdma.priorities",
    "rdma.ecn",
    "rdma.traffic_class",
    "rdma.acceleration",
)
ACCELERATIONS = (
    *("adaptive_routing_forced_en", "roce_adp_retrans_en", "roce_tx_window_en"),
    *("roce_slow_restart_en", "selective_repeat_forced_en"),
)
DCB_LINES = ("prio-pfc", "dscp-prio", "default-")
CMA = "/sys/kernel/config/rdma_cm"


def read_roce(request: Request, commands: Commands) -> Readings:
    """Congestion control of RoCE ports, with firmware settings if mlxreg or mstreg is installed."""
    readings: Readings = {name: {} for name in ROCE_READINGS}
    tool = next((name for name in ("mlxreg", "mstreg") if installed(name)), "")

    def shown(port: str, what: str) -> str:
        if not installed("dcb"):
            return ABSENT
        status, out, err = commands.outcome("dcb", what, "show", "dev", port)
        if status == 0:
            lines = [line.strip() for line in out.splitlines()]
            return "; ".join(line for line in lines if line.startswith(DCB_LINES))
        if NOT_SUPPORTED not in err:
            raise failure("dcb", status, out, err)
        return NOT_SUPPORTED

    def points(port: str) -> str:
        folder = f"/sys/class/net/{port}/ecn/roce_"
        return " ".join(
            f"{side} {''.join(line_of(path) for path in found_by(f'{folder}{side}/enable/*'))}"
            for side in ("np", "rp")
        )

    def register(device: str) -> Any:
        # The tool identifies a device by its PCI address.
        function = os.path.basename(resolved(f"{RDMA}/{device}/device"))
        out = commands.run(tool, "-d", function, "--reg_name", "ROCE_ACCL", "--get")
        fields = dict(re.findall(r"^(\w+)\s*\|\s*(0x[0-9a-f]+)", out, re.M))
        return {name: int(fields[name], 16) for name in ACCELERATIONS if name in fields}

    for device in below(RDMA):
        top = f"{RDMA}/{device}"
        port = netdev(f"{top}/ports/1")
        if said(f"{top}/ports/1/link_layer") != "Ethernet" or not port:
            continue
        readings["rdma.pfc"][device] = one(lambda name: shown(name, "pfc"), port)
        readings["rdma.priorities"][device] = one(lambda name: shown(name, "app"), port)
        readings["rdma.ecn"][device] = one(points, port)
        classes = (f"{top}/tc/1/traffic_class", f"{CMA}/{device}/ports/1/default_roce_tos")
        readings["rdma.traffic_class"][device] = ", ".join(said(path) for path in classes)
        mellanox = exists(f"{top}/device/config") and device.startswith("mlx5")
        readings["rdma.acceleration"][device] = one(register, device) if tool and mellanox else {}
    return readings
