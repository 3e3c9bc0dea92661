"""Readings that healthy machines of one class share, and those that differ."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from lockstep.catalog.os import Release
from lockstep.checks.catalogue import all_rules
from lockstep.checks.rule import Kind
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan.running import KernelFile
from lockstep.spec import NodeRole, Service
from lockstep.spec.names import cpus
from lockstep.when import HOUR_S
from tests.checks.recorded_machine import KERNEL

GROWS = {rule.reading: rule.tolerance for rule in all_rules() if rule.kind is Kind.GROWTH}
"""Counter -> what it may grow by in an hour."""
HOST_KEYS = ("ed25519", "ecdsa", "rsa")
REMOTE = {"ipv6": "--remote=fd00:1::1001", "ipv4": "--remote=110.1.0.100"}
"""An address that all nodes are told, and one of theirs is a part of."""
FURTHER = "mlx5_9"
NO_OTHER = {"unread": "the request contains no credential from another node"}
WORKING = (["ALLOCATED"], ["MIXED"], ["ALLOCATED", "COMPLETING"], ["MIXED", "RESERVED"])
WAITING = (["IDLE"], ["IDLE", "PLANNED"], ["IDLE", "RESERVED"])


def kind(chance: Random) -> dict[str, Any]:
    """Return what all machines of a class share and no description says."""
    return {
        "cpu.microcode": f"0x{chance.randrange(1 << 32):08x}",
        "cpu.smt": chance.choice(("on", "off", "notsupported")),
        "mounts.shared": {
            path: f"nfs4 server{chance.randrange(9)}:{path} hard,vers=4.2"
            for path in ("/home", "/scratch", "/apps")
            if chance.random() < 0.7
        },
        "memory_share": chance.uniform(1.01, 1.05),
    }


def own(
    node: NodePlan, raw: dict[str, Any], kind: dict[str, Any], chance: Random
) -> dict[str, Any]:
    """Return the readings in which a healthy node differs from its peers, and its class's."""
    seen = {name: entry.get("value") for name, entry in raw["readings"].items()}
    hardware = node.hardware.hardware
    share = kind["memory_share"] * chance.uniform(0.9975, 1.0025)
    allowed = sorted(cpus(node.hardware.cpu.housekeeping))
    disk = [f"root=UUID={_hex(chance, 32)}", f"BOOT_IMAGE=/vmlinuz-{chance.randrange(9)}"]
    line = [word for word in seen["kernel.cmdline"] if not word.startswith(("root=", "BOOT_IMAGE"))]
    return {
        **{name: kind[name] for name in ("cpu.microcode", "cpu.smt")},
        **{
            name: {item: value + chance.randrange(10**6) for item, value in seen[name].items()}
            for name in GROWS.keys() & seen.keys()
            if isinstance(seen[name], dict)
        },
        **_kernel(node),
        "mounts.shared": _some(kind["mounts.shared"], chance),
        "mounts.local": {**seen["mounts.local"], f"/data{chance.randrange(9)}": "rw"},
        "kernel.tainted": chance.choice((0, 1 << 12, 1 << 13 | 1)),
        "irq.affinity": {
            name: str(chance.choice(allowed)) if allowed and value != "1" else value
            for name, value in {**seen["irq.affinity"], f"own{_hex(chance, 4)}": "0-1"}.items()
        },
        "collectors": {
            name: [f"{line} {REMOTE[node.address_family]}" for line in lines]
            for name, lines in seen["collectors"].items()
        },
        "os.boot_id": _hex(chance, 32),
        "os.machine_id": _hex(chance, 32),
        "os.host_keys": {name: _hex(chance, 64) for name in HOST_KEYS},
        "os.id": node.release.id,
        "os.version_id": node.release.version_id,
        "memory_mib": round(hardware.memory_mib * share),
        "kernel.cmdline": [*disk, *line],
        "munge.credential": f"MUNGE:{_hex(chance, 40)}:",
        "munge.decoded": NO_OTHER if node.runs(Service.SLURM_CONTROLLER) else "Success",
        "packages": _packages(node, seen["packages"], chance),
        "units": {
            unit: {**state, "started_at": state["started_at"] and chance.randrange(10**9)}
            for unit, state in seen["units"].items()
        },
        "storage.space": {path: chance.uniform(1, 89) for path in seen["storage.space"]},
        "storage.inodes": {path: chance.uniform(1, 89) for path in seen["storage.inodes"]},
        "services.cpu_share": {"munge.service": chance.uniform(0, 19), "slurmd.service": 95.0},
        "hugepages.free": {
            size: {numa: chance.randint(0, pages) for numa, pages in split.items()}
            for size, split in seen["hugepages.free"].items()
        },
        "storage.nvme": {
            f"nvme{chance.randrange(4) + 4 * i}": make
            for i, make in enumerate(seen["storage.nvme"].values())
        },
        **_clock(node, chance),
        **_network(node, seen, chance),
        **_adapters(node, seen, chance),
    }


def on_release(node: NodePlan, readings: dict[str, Any]) -> dict[str, Any]:
    """Return the readings of a node with the kernel and the packages of its release."""
    release, locked = node.release, node.software.versions
    packages = {
        name: version if name in locked else f"{version}+{release.name}"
        for name, version in readings["packages"]["value"].items()
    }
    changed: dict[str, Any] = _with_kernel(release, readings)
    return {**changed, "packages": {"value": packages}}


def _with_kernel(release: Release, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_kernel(release, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_kernel(release, inner) for inner in value]
    return f"6.1.0-{release.version_id}-amd64" if value == KERNEL else value


def _clock(node: NodePlan, chance: Random) -> dict[str, Any]:
    most = node.spec.time.max_offset_s
    return {
        "time.offset_s": chance.uniform(-most, most),
        "time.stratum": chance.randint(2, 11),
        "time.reference": f"fd00::{chance.randrange(99)}",
    }


def _network(node: NodePlan, seen: dict[str, Any], chance: Random) -> dict[str, Any]:
    names = [*seen["net.mac"]]
    # Rails have addresses of their own, bridges of container engines the same on every node.
    rails = [str(address) for address in node.node.fabric]
    added = [f"rail{number}" for number in range(len(rails)) if len(names) < 2]
    every = [*names, *added]
    spread = [every[1 + number % (len(every) - 1)] for number in range(len(rails))]
    addresses: dict[str, list[str]] = {name: [] for name in every}
    addresses["eno1"].append(node.address)
    for name, address in zip(spread, rails, strict=True):
        addresses[name].append(address)
    bridge = {"docker0": ["172.17.0.1"]} if chance.random() < 0.5 else {}
    alike = {
        name: dict.fromkeys((*every, *bridge), value["eno1"])
        for name, value in seen.items()
        if name.startswith("net.") and isinstance(value, dict) and "eno1" in value
    }
    family = node.address_family
    return {
        **alike,
        "net.addresses": {**addresses, **bridge},
        "net.mac": {
            **{name: _hex(chance, 12) for name in every},
            **dict.fromkeys(bridge, "02:42:00:00:00:01"),
        },
        "net.state": {**dict.fromkeys(every, "UP"), **dict.fromkeys(bridge, "DOWN")},
        "net.default_route": {"ipv4": [], "ipv6": [], family: ["eno1"]},
        **{
            name: {interface: chance.randrange(1000) for interface in (*every, *bridge)}
            for name in ("net.errors", "net.carrier_changes")
        },
    }


def _adapters(node: NodePlan, seen: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return the adapters of the fabric, and on some nodes one more for storage."""
    changes = {
        "rdma.guid": {name: _hex(chance, 16) for name in seen["rdma.guid"]},
        **(infiniband(seen["rdma.names"]) if _speaks_infiniband(node) else {}),
    }
    if node.hardware.hardware.nics.rdma_devices and chance.random() < 0.5:
        changes |= _with_another(seen | changes, chance)
    return changes


def _speaks_infiniband(node: NodePlan) -> bool:
    return node.hardware.hardware.nics.rdma == "infiniband"


def _with_another(seen: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return all readings of adapters with one more, which is nobody's business."""
    other: dict[str, Any] = {
        "rdma.guid": _hex(chance, 16),
        "rdma.state": "DOWN",
        "rdma.phys_state": "Disabled",
        "rdma.rate": f"{chance.choice((25, 100))} Gb/sec (1X EDR)",
        "rdma.netdev": f"storage{chance.randrange(9)}",
        "rdma.firmware": f"22.{chance.randrange(99)}",
        "rdma.pcie": "8 GT/s x8",
    }
    values = {
        name: {**value, FURTHER: other.get(name, value["mlx5_0"])}
        for name, value in seen.items()
        if name.startswith("rdma.") and isinstance(value, dict) and "mlx5_0" in value
    }
    names = [*seen["rdma.names"], FURTHER]
    return {**values, "rdma.names": names, "rdma.count": len(names)}


def infiniband(names: list[str]) -> dict[str, Any]:
    """Return what ports of InfiniBand say otherwise than those of RoCE."""
    return {
        "rdma.link_layer": dict.fromkeys(names, "InfiniBand"),
        "rdma.netdev": {name: f"ib{number}" for number, name in enumerate(names)},
        "rdma.sm_lid": dict.fromkeys(names, "0x1"),
        **{f"rdma.{name}": {} for name in ("pfc", "priorities", "ecn", "traffic_class")},
    }


def _kernel(node: NodePlan) -> dict[str, Any]:
    hardware = node.hardware
    files = {file.path: _shown(file) for file in (*hardware.cpu_files, *hardware.kernel_files)}
    deepest = hardware.hardware.kernel.max_cstate
    return {
        "kernel.files": files,
        "kernel.max_cstate": 9 if deepest is None else deepest,
    }


def _shown(file: KernelFile) -> dict[str, str]:
    if file.form == "choice":
        return {file.path: f"one [{file.value}] other"}
    if file.form == "mask":
        return {file.path: f"00000000,{file.value}"}
    return {file.path.replace("*", str(number)): file.value for number in range(2)}


def _packages(node: NodePlan, seen: dict[str, str], chance: Random) -> dict[str, str]:
    patterns = {name: pattern.replace("*", "1") for name, pattern in node.software.versions.items()}
    own = {f"own-{node.name}": f"{chance.randrange(9)}.0"} if chance.random() < 0.1 else {}
    return {**seen, **patterns, **own}


def told_by_slurm(planned: ClusterPlan, at_work: set[str], chance: Random) -> dict[str, Any]:
    """Return what the controller says of each worker."""
    return {
        name: {
            "state": chance.choice(WORKING if name in at_work else WAITING),
            "cpus": node.hardware.hardware.cpus,
            "real_memory": node.hardware.hardware.slurm_memory_mib,
            "gres": node.hardware.slurm.gres,
            "cpu_spec_list": node.hardware.slurm.cpu_spec_list,
            "reason": "",
            "version": "24.11.5",
        }
        for name, node in planned.nodes.items()
        if node.role is NodeRole.WORKER
    }


def earlier(raw: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return how a node was some time ago: counters were lower, or of another boot."""
    old = copy.copy(raw) | {"readings": dict(raw["readings"])}
    hours = chance.uniform(0.2, 30)
    old["taken_at"] -= hours * HOUR_S
    if chance.random() < 0.2:
        old["readings"]["os.boot_id"] = {"value": "of another boot"}
    for reading, per_hour in GROWS.items():
        counters = raw["readings"].get(reading, {}).get("value")
        if isinstance(counters, dict):
            most = int(per_hour * max(1.0, hours))
            old["readings"][reading] = {
                "value": {
                    item: value - chance.randint(0, most) if isinstance(value, int) else value
                    for item, value in counters.items()
                }
            }
    return old


def _some(values: dict[str, Any], chance: Random) -> dict[str, Any]:
    return {name: value for name, value in values.items() if chance.random() < 0.8}


def _hex(chance: Random, digits: int) -> str:
    return f"{chance.randrange(16**digits):0{digits}x}"
