"""Recorded nodes as ``lockstep describe`` reads them: each plan, seen from its node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockstep.catalog import os as operating_systems
from lockstep.checks.context import Context
from lockstep.describe import Draft, draft
from lockstep.fleet.gather import SYSCTLS, THP_FILES
from lockstep.node.describe.readers import read_slurm
from lockstep.node.readers import tree
from lockstep.node.readers.commands import Commands
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan.running import GOVERNOR
from lockstep.probe.record import Reading, Record
from lockstep.spec import Service
from lockstep.spec.names import expand
from tests.checks import recorded

ACCESS = {"user": "admin"}
SERVICES = {
    Service.SLURM_CONTROLLER: "slurmctld",
    Service.SLURM_ACCOUNTING: "slurmdbd",
    Service.PROMETHEUS: "prometheus",
}
CONF = "/etc/slurm/slurm.conf"


def recorded_on(release: str, plan: ClusterPlan) -> Context:
    """Return a consistent cluster whose nodes have a release, as they would record it."""
    known = operating_systems.load(release)
    raw = {name: recorded.raw_record(node) for name, node in plan.nodes.items()}
    for record in raw.values():
        # RHEL and its rebuilds have the point release in VERSION_ID.
        version = f"{known.version_id}.4" if known.family == "rhel" else known.version_id
        packages = record["readings"]["packages"]["value"]
        if known.family == "rhel":
            packages |= {
                name: f"{known.slurm[0]}.{known.slurm[1]:02}.9-1.el9"
                for name in packages
                if name.startswith("slurm")
            }
        record["readings"]["os.id"] = {"value": known.id}
        record["readings"]["os.version_id"] = {"value": version}
    return recorded.context(plan, raw)


def read(context: Context, folder: Path) -> Reading:
    """Return the records of a cluster, with the readings that a description needs."""
    head = next(iter(context.plan.nodes.values()))
    conf = next((file.content for file in context.files(head) if file.path == CONF), b"")
    path = folder / CONF[1:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(conf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "ROOT", str(folder))
        slurm = read_slurm({}, Commands())
    found: Reading = {}
    for name, node in context.plan.nodes.items():
        record = context.reading[name]
        assert isinstance(record, Record)
        raw = record.model_dump(mode="json")
        for reading, value in {**of_node(node), **slurm}.items():
            raw["readings"][reading] = {"value": value}
        found[name] = recorded.parsed(raw)
    return found


def changed(reading: Reading, node: str, **values: Any) -> Reading:
    """Return the records with other readings of one node; two underscores stand for a dot."""
    record = reading[node]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    for name, value in values.items():
        raw["readings"][name.replace("__", ".")] = {"value": value}
    return {**reading, node: recorded.parsed(raw)}


def of_node(node: NodePlan) -> dict[str, Any]:
    """Return what the readers of a description find on a node that is as planned."""
    hardware, fabric = node.hardware.hardware, node.spec.networks.get("fabric")
    length = node.spec.networks["management"].prefix.prefixlen
    addresses = {hardware.management_interface or "eno1": [f"{node.address}/{length}"]}
    rails = expand(hardware.nics.interfaces) if hardware.nics.interfaces else ()
    management = next(iter(addresses))
    if (other := node.spec.networks["management"].second_family) is not None:
        addresses[management].append(f"{node.node.management_second}/{other.prefix.prefixlen}")
    for family, own in zip(
        fabric.families if fabric else (), (node.node.fabric, node.node.fabric_second), strict=False
    ):
        for rail, address in zip(rails, own, strict=True):
            length = family.first_rail.prefixlen
            addresses.setdefault(rail, []).append(f"{address}/{length}")
    devices = expand(hardware.nics.rdma_devices) if hardware.nics.rdma_devices else ()
    layer = "InfiniBand" if hardware.nics.rdma == "infiniband" else "Ethernet"
    settings = hardware.kernel
    thp = (settings.transparent_hugepages, settings.transparent_hugepages_defrag)
    files: dict[str, dict[str, str]] = {
        path: {path: f"other [{value}]"}
        for path, value in zip(THP_FILES, thp, strict=True)
        if value
    }
    if settings.cpu_governor:
        files[GOVERNOR] = {GOVERNOR: settings.cpu_governor}
    running = {
        f"{unit}.service": recorded.RUNNING if node.runs(service) else recorded.OFF
        for service, unit in SERVICES.items()
    }
    balancing = {None: {}, True: {SYSCTLS[0]: "1"}, False: {SYSCTLS[0]: "0"}}
    return {
        "units": {**_value(node, "units"), **running},
        "describe.processors": {
            "architecture": "aarch64" if hardware.architecture == "arm64" else "x86_64",
            "sockets": hardware.sockets,
            "cores_per_socket": hardware.cores_per_socket,
            "threads_per_core": hardware.threads_per_core,
            "adjacent": hardware.cpu_numbering == "threads_adjacent",
        },
        "describe.addresses": addresses,
        "describe.reached_at": node.address,
        "describe.login": "admin",
        "describe.time_servers": list(node.spec.time.servers),
        "rdma.names": list(devices),
        "rdma.link_layer": dict.fromkeys(devices, layer),
        "rdma.netdev": dict(zip(devices, rails, strict=False)),
        "describe.machine": {"container": "", "nvswitches": 0},
        "kernel.files": {**_value(node, "kernel.files"), **files},
        "sysctl.running": {**node.system.sysctl, **balancing[settings.numa_balancing]},
    }


def _value(node: NodePlan, name: str) -> dict[str, Any]:
    return recorded.raw_record(node)["readings"][name]["value"]  # type: ignore[no-any-return]


def drafted(reading: Reading) -> Draft:
    """Return the draft of a description."""
    return draft(reading, ACCESS, "lockstep describe head1 worker[1-8]", "2026-11-20")
