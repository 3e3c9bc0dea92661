"""A small cluster with Kubernetes, as a plain description."""

from __future__ import annotations

from typing import Any

from tests.spec.nvidia_example import KEY


def description() -> dict[str, Any]:
    """One head, two workers with eight GPUs, IPv6."""
    return {
        "name": "pods",
        "networks": {"management": {"prefix": "fd00:1::/64"}},
        "hardware": {
            "head": {"sockets": 1, "cores_per_socket": 4, "memory_mib": 16000},
            "hgx": {
                "sockets": 2,
                "cores_per_socket": 8,
                "threads_per_core": 2,
                "numa_nodes": 2,
                "memory_mib": 64000,
                "housekeeping_cpus": "0,8,16,24",
                "gpu": {"model": "h200", "count": 8},
                "hugepages": [{"size": "2M", "numa_node": 0, "count": 1024}],
            },
        },
        "nodes": [
            {
                "name": "head1",
                "role": "head",
                "hardware": "head",
                "management": "fd00:1::10",
                "pods": "fd00:2:0:10::/64",
                "runs": ["kubernetes_control_plane"],
            },
            {
                "name": "worker[1-2]",
                "role": "worker",
                "hardware": "hgx",
                "management": "fd00:1::101",
                "pods": "fd00:2:0:101::/64",
            },
        ],
        "os": {"release": "debian_13"},
        "scheduler": {
            "kind": "kubernetes",
            "version": "1.34.4",
            "pod_prefix": "fd00:2::/48",
            "service_prefix": "fd00:3::/108",
        },
        "software": {
            "repositories": [
                {
                    "name": "site",
                    "uri": "https://packages.example.net/debian",
                    "suite": "/",
                    "key": KEY,
                },
            ],
            "nvidia": {
                "packaging": "debian",
                "driver": "550.163.01",
                "container_toolkit": "1.19.1",
            },
            "containers": {"engines": ["containerd"]},
        },
    }


SLURM = {"kind": "slurm"}


def with_both() -> dict[str, Any]:
    """The same cluster with Slurm as well: worker1 belongs to Slurm, worker2 to Kubernetes."""
    found = description()
    found["scheduler"] = [SLURM, found["scheduler"]]
    head, workers = found["nodes"]
    head["runs"] = [*head["runs"], "slurm_controller", "slurm_accounting"]
    slurm = {**workers, "name": "worker1", "scheduler": "slurm"}
    del slurm["pods"]
    pods = {
        **workers,
        "name": "worker2",
        "management": "fd00:1::102",
        "pods": "fd00:2:0:102::/64",
        "scheduler": "kubernetes",
    }
    found["nodes"] = [head, slurm, pods]
    return found
