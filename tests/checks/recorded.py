"""Eight recorded workers and their head, as the engine gets them: one capture and its deltas."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.files import ManagedFile, managed
from lockstep.plan import ClusterPlan, NodePlan, plan
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.report import Finding, Report
from lockstep.secrets import Secrets
from lockstep.spec import Role, load

CAPTURES = Path(__file__).parent.parent / "captures" / "h200"
SECRETS = Secrets(munge_key=b"k" * 128, database_password="not a real one")
REMOVED = object()
"""As a value of ``mutate``: take the reading away."""

DESCRIPTION: dict[str, Any] = {
    "name": "recorded",
    "networks": {"management": {"prefix": "fd00:1::/64"}},
    "hardware": {
        "head": {"sockets": 1, "cores_per_socket": 2, "memory_mib": 8000},
        "hgx-h200": {
            "sockets": 2,
            "cores_per_socket": 4,
            "threads_per_core": 2,
            "numa_nodes": 2,
            "memory_mib": 65536,
            "gpu": {"model": "h200", "count": 8},
            "hugepages": [
                {"size": "2M", "numa_node": 0, "count": 512},
                {"size": "2M", "numa_node": 1, "count": 512},
            ],
            "housekeeping_cpus": "0,8",
            "kernel_args": ["iommu=pt"],
        },
    },
    "nodes": [
        {
            "name": "head1",
            "role": "head",
            "hardware": "head",
            "management": "fd00:1::1",
            "runs": ["slurm_controller", "slurm_accounting"],
        },
        {
            "name": "worker[1-8]",
            "role": "worker",
            "hardware": "hgx-h200",
            "management": "fd00:1::101",
        },
    ],
    "os": {
        "release": "debian_13",
        "sysctl": {"net.core.somaxconn": "4096", "vm.swappiness": "1"},
    },
    "scheduler": {"kind": "slurm"},
    "software": {"versions": {"slurmd": "24.11.5-4+deb13u1"}},
}


def clustered(change: Callable[[dict[str, Any]], None] = lambda description: None) -> Context:
    """Return a consistent cluster, after a change of its description."""
    description = copy.deepcopy(DESCRIPTION)
    change(description)
    cluster, problems = load(description)
    assert cluster is not None, problems
    planned = plan(cluster, inventory="inventories/recorded.py")
    return context(planned, {name: _node(node) for name, node in planned.nodes.items()})


def context(planned: ClusterPlan, raw: dict[str, dict[str, Any]]) -> Context:
    """Return what the engine judges."""
    reading: Reading = {name: Record.model_validate(record) for name, record in raw.items()}
    return Context(planned, reading, _files, SECRETS.munge_key_sha256)


@cache
def consistent() -> Context:
    """Return the cluster in which nothing differs."""
    return clustered()


def mutated(start: Context, node: str, reading: str, path: tuple[str, ...], value: Any) -> Context:
    """Return the cluster with one place of one record changed; the path is inside the value."""
    record = start.reading[node]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    place, last = raw["readings"], reading
    if path:
        place = raw["readings"][reading]["value"]
        for key in path[:-1]:
            place = place[key]
        last = path[-1]
        new = value
    else:
        new = value if value is REMOVED else {"value": value}
    if value is REMOVED:
        del place[last]
    else:
        assert last not in place or place[last] != new, "the mutation changes nothing"
        place[last] = new
    return with_reading(start, {**start.reading, node: Record.model_validate(raw)})


def unreachable(start: Context, *nodes: str) -> Context:
    """Return the cluster without records of these nodes."""
    gone = {node: Unreachable("ssh: Could not connect (timed out)") for node in nodes}
    return with_reading(start, {**start.reading, **gone})


def with_reading(start: Context, reading: Reading) -> Context:
    """Return the cluster with other records."""
    return replace(start, reading=reading)


def report(context: Context, *ids: str) -> Report:
    """Return what all rules find, or those with these ids."""
    return check([rule for rule in all_rules() if not ids or rule.id in ids], context)


def only(findings: Iterable[Finding]) -> Finding:
    """Return the one finding there must be."""
    found = list(findings)
    assert len(found) == 1, [(f.rule, f.node, f.device, f.found) for f in found]
    return found[0]


@cache
def _rendered(name: str, role: Role, cluster: int) -> tuple[ManagedFile, ...]:
    return managed(_PLANS[cluster].nodes[name], SECRETS)


_PLANS: dict[int, ClusterPlan] = {}


def _files(node: NodePlan) -> tuple[ManagedFile, ...]:
    _PLANS[id(node.cluster)] = node.cluster  # kept, so that an id is never used twice
    return _rendered(node.name, node.role, id(node.cluster))


@cache
def _capture(role: Role) -> str:
    return (CAPTURES / f"{role.value}.json").read_text(encoding="utf-8")


def _node(node: NodePlan) -> dict[str, Any]:
    """Return the capture of the node's role, brought to what its plan says."""
    record: dict[str, Any] = json.loads(_capture(node.role))
    hardware, number = node.hardware, list(node.cluster.nodes).index(node.name)
    seen = {name: entry.get("value") for name, entry in record["readings"].items()}
    line = [*seen["kernel.cmdline"], *hardware.kernel_args]
    changes: dict[str, Any] = {
        "os.hostname": node.name,
        "os.boot_id": f"00000000-0000-4000-8000-{number:012}",
        "cpu.online": f"0-{hardware.hardware.cpus - 1}",
        "numa.cpus": {str(numa): cpus for numa, cpus in enumerate(hardware.cpu.numa)},
        "memory_mib": hardware.hardware.memory_mib + 11,
        "kernel.cmdline": line,
        "kernel.cmdline_persisted": list(hardware.kernel_args),
        "hugepages": {
            size: {
                str(numa): hardware.hugepages.get(size, {}).get(numa, 0)
                for numa in range(hardware.hardware.numa_nodes)
            }
            for size in ("2M", "1G")
        },
        "cpuset.manager": hardware.cpu.housekeeping,
        "cpuset.user_slice": hardware.cpu.housekeeping,
        "hosts.entries": {name: [address] for address, name in node.cluster.hosts},
        "munge.key_sha256": SECRETS.munge_key_sha256,
        "files": {
            file.path: {
                "sha256": file.sha256,
                "mode": file.mode,
                "user": file.user,
                "group": file.group,
            }
            for file in _files(node)
        },
        "sysctl.running": dict(node.spec.os.sysctl),
        "sysctl.persisted": {
            key: {"value": value, "file": "/etc/sysctl.d/99-zz-lockstep.conf"}
            for key, value in node.spec.os.sysctl.items()
        },
    }
    if node.role is Role.WORKER:
        boards = range(8)
        changes["gpu.uuid"] = {f"gpu{i}": f"GPU-{number:08}-0000-{i:012}" for i in boards}
        changes["gpu.serial"] = {f"gpu{i}": f"165{number:06}{i:04}" for i in boards}
        controller = _files(next(iter(node.cluster.nodes.values())))
        conf = {file.path: file.sha256 for file in controller}["/etc/slurm/slurm.conf"]
        changes["slurm.conf_sha256"] = conf
    else:
        changes["slurm.nodes"] = {
            name: {
                "state": ["IDLE"],
                "cpus": worker.hardware.slurm.cpus,
                "real_memory": worker.hardware.slurm.real_memory_mib,
                "gres": worker.hardware.slurm.gres,
                "cpu_spec_list": worker.hardware.slurm.cpu_spec_list,
                "reason": "",
                "version": "24.11.5",
            }
            for name, worker in node.cluster.nodes.items()
            if worker.role is Role.WORKER
        }
    for name, value in changes.items():
        record["readings"][name] = {"value": value}
    return record
