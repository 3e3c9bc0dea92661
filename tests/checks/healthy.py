"""Random clusters without faults; everything that may differ between healthy nodes differs."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from lockstep.catalog import gpus
from lockstep.checks.context import Context
from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan
from lockstep.roles import declared
from lockstep.spec import Service, load
from tests.checks import healthy_gpus, healthy_nodes, recorded

MIG = {"a100": ["3g.40gb", "2g.20gb"], "h100": ["7g.80gb"], "h200": ["3g.71gb", "1g.18gb"]}
SWITCHED = ("a100", "h100", "h200")
DRIVERS = (("590.48.01", ["13.1"]), ("580.95.05", ["12.9", "13.0"]), ("570.172.08", ["12.8"]))
LAST_OF_VOLTA = ("580.95.05", ["12.9"])
FIRST = {"ipv6": ("fd00:1::/64", "fd00:1::"), "ipv4": ("10.1.0.0/16", "10.1.0.")}


def clustered(seed: int) -> Context:
    """Return a healthy cluster, and how its nodes were some time ago."""
    chance = Random(seed)
    return of(described(chance), chance)


def of(description: dict[str, Any], chance: Random) -> Context:
    """Return a healthy cluster with this description, and how its nodes were some time ago."""
    cluster, problems = load(description, declared())
    assert cluster is not None, problems
    planned = plan(cluster, inventory="inventories/healthy.py")
    now = dict(records(planned, chance))
    before = {name: healthy_nodes.earlier(raw, chance) for name, raw in now.items()}
    return replace(
        recorded.context(planned, now),
        before={name: recorded.parsed(raw) for name, raw in before.items()},
    )


def records(planned: ClusterPlan, chance: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each node with its record."""
    kinds = {key: healthy_nodes.kind(chance) for key in planned.classes}
    at_work = {name for name in planned.nodes if chance.random() < 0.4}
    for name, node in planned.nodes.items():
        raw = recorded.raw_record(node)
        changes = healthy_nodes.own(node, raw, kinds[node.hardware.key], chance)
        changes |= healthy_gpus.own(node, raw, name in at_work, chance)
        if node.runs(Service.SLURM_CONTROLLER):
            changes["slurm.nodes"] = healthy_nodes.told_by_slurm(planned, at_work, chance)
        for reading, value in changes.items():
            unread = isinstance(value, dict) and value.keys() == {"unread"}
            raw["readings"][reading] = value if unread else {"value": value}
        if node.release.name != planned.spec.os.release:
            raw["readings"] = healthy_nodes.on_release(node, raw["readings"])
        raw["taken_at"] += chance.uniform(-2, 2)
        yield name, raw


def described(chance: Random) -> dict[str, Any]:
    """Return the description of a small cluster: up to three kinds of worker, up to two heads."""
    classes = {f"kind{i}": _worker_class(chance) for i in range(chance.randint(1, 3))}
    family = chance.choice(("ipv6", "ipv6", "ipv4"))
    prefix, start = FIRST[family]
    rails = chance.choice((0, 2)) if family == "ipv6" else 0
    description: dict[str, Any] = {
        "name": f"healthy{chance.randrange(1000)}",
        "networks": {
            "management": {"prefix": prefix},
            **({"fabric": {"prefix": "fd00:2::/60", "rails": rails}} if rails else {}),
        },
        "hardware": {"head": recorded.DESCRIPTION["hardware"]["head"], **classes},
        "nodes": [
            *_heads(chance, start, _of_heads(chance, classes)),
            *_workers(chance, start, classes, bool(rails)),
        ],
        "os": _os(chance, family),
        "time": {"max_offset_s": chance.choice((0.01, 0.05, 1))},
        "scheduler": {"kind": "slurm", "system_memory_mib": chance.choice((0, 1024))},
        "software": _software(chance, classes),
    }
    if description["os"]["release"] == "debian_12":  # without MIG in Slurm, CDI, Slurm 24.11
        for one in classes.values():
            one.get("gpu", {}).pop("mig", None)
        description["software"].pop("containers", None)
        description["software"].get("nvidia", {}).pop("container_toolkit", None)
    if chance.random() < 0.3:
        description["time"]["servers"] = ["ntp1.example", "ntp2.example"]
    if chance.random() < 0.5:
        _two_releases(description)
    return description


def _two_releases(description: dict[str, Any]) -> None:
    """Add workers of the same classes with another release, and a Slurm that the others accept."""
    first = description["os"]["release"]
    other = {"debian_12": "debian_13", "debian_13": "debian_12"}[first]
    software = description["software"]
    if first == "debian_13" and (software.get("containers") or "mig" in str(description)):
        return  # Debian 12 has no CDI, and its Slurm detects no MIG devices
    for group in [one for one in description["nodes"] if one["role"] == "worker"]:
        further = {
            field: f"{group[field][:-3]}2{group[field][-2:]}"
            for field in ("management", "fabric")
            if field in group
        }
        name = group["name"].replace("n[", "m[")
        description["nodes"].append({**group, **further, "name": name, "release": other})
    for repository in software.get("repositories", []):
        repository["releases"] = ["debian_12", "debian_13"]
    slurm = {"slurmctld": "24.11.5-1", "slurmdbd": "24.11.5-1", "slurmd": "24.11.5-1"}
    software["versions_on"] = {first: slurm, other: {"slurmd": "24.05.2-1"}}


def _os(chance: Random, family: str) -> dict[str, Any]:
    return {
        "release": chance.choice(("debian_13", "debian_13", "debian_12")),
        "address_family": family,
        "sysctl": {"vm.swappiness": chance.choice(("1", "10", "60"))},
        "memlock": chance.choice(("unlimited", 8388608)),
        **({"hugetlb_gid": 1500} if chance.random() < 0.3 else {}),
    }


def _of_heads(chance: Random, classes: dict[str, Any]) -> str:
    """Return the class of the heads: theirs, or the one of workers without GPUs."""
    plain = [name for name, one in classes.items() if "gpu" not in one]
    return chance.choice(plain) if plain and chance.random() < 0.5 else "head"


def _heads(chance: Random, start: str, hardware: str) -> list[dict[str, Any]]:
    services = [["slurm_controller", "slurm_accounting"], ["prometheus"]]
    if chance.random() < 0.6:
        services = [[*services[0], *services[1]]]
    return [
        {
            "name": f"head{number}",
            "role": "head",
            "hardware": hardware,
            "management": f"{start}{number}",
            "runs": runs,
        }
        for number, runs in enumerate(services, 1)
    ]


def _workers(
    chance: Random, start: str, classes: dict[str, Any], fabric: bool
) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{hardware}n[1-{chance.randint(1, 4)}]",
            "role": "worker",
            "hardware": hardware,
            "management": f"{start}1{number}0",
            **({"fabric": f"fd00:2::1{number}0"} if fabric else {}),
        }
        for number, hardware in enumerate(classes)
    ]


def _worker_class(chance: Random) -> dict[str, Any]:
    cores, threads = chance.choice((2, 4)), chance.choice((1, 2))
    rdma = chance.choice(("none", "roce", "infiniband"))
    count = chance.choice((1, 2, 4))
    wanted: dict[str, Any] = {
        "sockets": 2,
        "cores_per_socket": cores,
        "threads_per_core": threads,
        "numa_nodes": chance.choice((1, 2)),
        "memory_mib": chance.choice((32768, 65536)),
    }
    if chance.random() < 0.85:
        wanted["gpu"] = _gpu(chance)
        if re.search("G[BH][23]00", str(wanted["gpu"]["model"]).upper()):
            wanted["architecture"] = "arm64"
    if rdma != "none":
        named = {"rdma_devices": f"mlx5_[0-{count - 1}]"} if chance.random() < 0.7 else {}
        wanted["nics"] = {"count": count, "rdma": rdma, **named}
    if chance.random() < 0.15:  # a container, whose kernel and clock are the machine's below
        return wanted | {"cgroup": "none", "boot_loader": "none", "clock": "host"}
    wanted["kernel"] = _kernel(chance)
    if wanted.get("architecture") == "arm64":  # settings of x86
        wanted["kernel"].pop("max_cstate", None)
        if wanted["kernel"].get("iommu") == "off":
            wanted["kernel"]["iommu"] = "nopt"
    if chance.random() < 0.6:  # the first core of each socket
        first = [
            socket * cores + thread * 2 * cores for thread in range(threads) for socket in (0, 1)
        ]
        wanted["housekeeping_cpus"] = ",".join(map(str, sorted(first)))
        flags = ("managed_irq", "nohz_full", "domain")
        wanted["kernel"]["isolation"] = [flag for flag in flags if chance.random() < 0.5]
    if chance.random() < 0.6:
        wanted["hugepages"] = [
            {"size": "2M", "numa_node": wanted["numa_nodes"] - 1, "count": 512},
            *([{"size": "1G", "numa_node": 0, "count": 2}] if chance.random() < 0.5 else []),
        ]
    return wanted


def _kernel(chance: Random) -> dict[str, Any]:
    every: dict[str, tuple[Any, ...]] = {
        "transparent_hugepages": ("always", "madvise", "never"),
        "transparent_hugepages_defrag": ("defer", "defer+madvise"),
        "numa_balancing": (True, False),
        "cpu_governor": ("performance", "schedutil"),
        "max_cstate": (1, 2, 9),
        "iommu": ("pt", "off"),
    }
    return {name: chance.choice(values) for name, values in every.items() if chance.random() < 0.6}


def _gpu(chance: Random) -> dict[str, Any]:
    model = chance.choice(gpus.known())
    switched = model in SWITCHED and chance.random() < 0.6
    known = gpus.load(model)
    fastest = known.max_sm_clock_mhz or 2000
    limits = known.power_limits_w or (known.default_power_limit_w or 300.0,) * 2
    settings: dict[str, tuple[Any, ...]] = {
        "power_limit_w": (sum(limits) / 2,),
        "clocks_mhz": ((fastest - 300, fastest),),
        "compute_mode": ("exclusive_process",),
        "persistence": (False,),
        "in_sysfs": (False,),
        "ecc": (False,),
        **({"mig": (MIG[model],)} if model in MIG else {}),
    }
    forms = (model, known.product_name, {"name": known.product_name})
    return {
        "model": chance.choices(forms, (8, 1, 1))[0],
        "count": 8 if switched else chance.choice((1, 2, 4, 8)),
        "nvswitch": switched,
        **{
            name: chance.choice(values)
            for name, values in settings.items()
            if chance.random() < 0.15
        },
    }


def _software(chance: Random, classes: dict[str, Any]) -> dict[str, Any]:
    gpus = [one["gpu"] for one in classes.values() if "gpu" in one]
    if not gpus or chance.random() < 0.2:
        return {}
    last = any("V100" in str(gpu["model"]).upper() for gpu in gpus)
    younger = any("PRO" in str(gpu["model"]).upper() for gpu in gpus)
    driver, cuda = LAST_OF_VOLTA if last else chance.choice(DRIVERS[: 2 if younger else 3])
    nvidia: dict[str, Any] = {"driver": driver, "cuda": cuda}
    if any(gpu["nvswitch"] for gpu in gpus):
        nvidia["fabric_manager"] = driver
    if chance.random() < 0.7:
        nvidia |= {"dcgm": "4.5.0", "dcgm_exporter": "4.8.0"}
    software = copy.deepcopy({"repositories": recorded.DESCRIPTION["software"]["repositories"]})
    engines = [name for name in ("containerd", "docker", "podman") if chance.random() < 0.4]
    if engines:
        nvidia["container_toolkit"] = "1.19.0"
        further = {"apptainer": "1.5.3", "enroot": "4.1.2", "pyxis": "0.24.0"}
        chosen = further if chance.random() < 0.5 else {}
        software["containers"] = {"engines": engines, **chosen}
    return {**software, "nvidia": nvidia}
