"""How ports that speak RoCE treat congestion."""

from __future__ import annotations

import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands, installed
from lockstep.node.readers.rdma import RDMA, netdev
from lockstep.node.readers.reading import ABSENT, Readings, Request, Unread, one
from lockstep.node.readers.tree import below, exists, found_by, line_of, rooted, said

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
CMA = "/sys/kernel/config/rdma_cm"


def read_roce(request: Request, commands: Commands) -> Readings:
    """How the ports that speak RoCE treat congestion; the firmware's view where its tool is."""
    readings: Readings = {name: {} for name in ROCE_READINGS}
    tool = next((name for name in ("mlxreg", "mstreg") if installed(name)), "")

    def shown(port: str, what: str) -> str:
        if not installed("dcb"):
            return ABSENT
        status, out, err = commands.outcome("dcb", what, "show", "dev", port)
        if status != 0 and "not supported" not in err:
            raise Unread(f"dcb: exit {status}: {err.strip()[:200]}")
        lines = [line.strip() for line in out.splitlines()]
        wanted = [line for line in lines if line.startswith(("prio-pfc", "dscp-prio", "default-"))]
        return "; ".join(wanted) if status == 0 else "not supported"

    def points(port: str) -> str:
        folder = f"/sys/class/net/{port}/ecn/roce_"
        return " ".join(
            f"{side} {''.join(line_of(path) for path in found_by(f'{folder}{side}/enable/*'))}"
            for side in ("np", "rp")
        )

    def register(device: str) -> Any:
        # Named like the PCI function; a virtual device has no register.
        function = os.path.basename(os.path.realpath(rooted(f"{RDMA}/{device}/device")))
        out = commands.run(tool, "-d", function, "--reg_name", "ROCE_ACCL", "--get")
        fields = dict(re.findall(r"^(\w+)\s*\|\s*(0x[0-9a-f]+)", out, re.M))
        return {name: int(fields[name], 16) for name in ACCELERATIONS if name in fields}

    for device in below(RDMA):
        top = f"{RDMA}/{device}"
        port = netdev(top, "1")
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
