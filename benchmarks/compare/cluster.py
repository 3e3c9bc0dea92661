"""Writes the files of a cluster of recorded machines: inventory and two records of each node."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan
from lockstep.probe.parse import FIRST_LINE, LAST_LINE
from lockstep.roles import declared
from lockstep.spec import load
from tests.checks import healthy, healthy_nodes, recorded

SEED = 2000
ADAPTERS = 8
MACHINE: dict[str, Any] = {
    "cores_per_socket": 48,
    "memory_mib": 2_000_000,
    "housekeeping_cpus": "0,48,96,144",
    "nics": {"count": ADAPTERS, "rdma": "roce", "rdma_devices": f"mlx5_[0-{ADAPTERS - 1}]"},
}
"""Changes to the hardware class of the recorded machine, which has few processors."""
QUEUES, PACKAGES = 63, 600
"""Interrupts per adapter and packages besides those of the plan, as on a real worker."""
INVENTORY = """\
import json

from lockstep.inventory import plan_or_exit

cluster = plan_or_exit(json.loads({text!r}), __file__)
"""

Drift = Callable[[int, dict[str, Any]], None]
"""Changes the record of the node with this number."""


@dataclass(frozen=True)
class Files:
    """Files of one cluster."""

    inventory: Path
    now: Path
    earlier: Path


def written(folder: Path, nodes: int, drift: Drift) -> Files:
    """Write a cluster with this number of workers, one record at a time to save memory."""
    description = described(nodes)
    cluster, problems = load(description, declared())
    if cluster is None:
        raise ValueError(f"the benchmark's description is invalid: {problems}")
    files = Files(folder / "inventory.py", folder / "now.json", folder / "earlier.json")
    files.inventory.write_text(INVENTORY.format(text=json.dumps(description)), encoding="utf-8")
    with files.now.open("w") as now, files.earlier.open("w") as earlier:
        start = FIRST_LINE
        for name, raw, old in _records(plan(cluster), drift):
            now.write(f"{start}{json.dumps(name)}:{_record(raw)}")
            earlier.write(f"{start}{json.dumps(name)}:{_record(old)}")
            start = ",\n"
        for file in (now, earlier):
            file.write(LAST_LINE)
    return files


def described(nodes: int) -> dict[str, Any]:
    """Return the description of a head and this number of workers."""
    description = copy.deepcopy(recorded.DESCRIPTION)
    description["hardware"]["hgx-h200"] |= MACHINE
    del description["networks"]["fabric"]["manager"]  # it needs a name for each rail
    description["nodes"][1]["name"] = f"worker[0001-{nodes:04}]"
    return description


def _records(
    planned: ClusterPlan, drift: Drift
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    chance = Random(SEED)
    names = {f"bench-library{number}": f"1.{number}-2" for number in range(PACKAGES)}
    queues = {
        f"mlx5_comp{queue}@pci:0000:{adapter:02x}:00.0": "0,48"
        for adapter in range(ADAPTERS)
        for queue in range(QUEUES)
    }
    for number, (name, raw) in enumerate(healthy.records(planned, chance)):
        raw["readings"]["packages"]["value"] |= names
        if number:  # number 0 is the head
            raw["readings"]["irq.affinity"]["value"] |= queues
            drift(number, raw["readings"])
        yield name, raw, healthy_nodes.earlier(raw, chance)


def _record(raw: dict[str, Any]) -> str:
    return json.dumps({"record": raw}, separators=(",", ":"))
