"""A description of two GB200 racks, which tests change in one place."""

from typing import Any

from tests.spec.nvidia_example import KEY

DRIVER = "580.95.05"
TRAYS = {"rack1": "a[01-18]", "rack2": "b[01-18]"}
"""NVLink domain -> its compute trays."""


def description() -> dict[str, Any]:
    """Two racks with 18 compute trays, each with two Grace processors and four GPUs."""
    return {
        "name": "racks",
        "networks": {"management": {"prefix": "fd00:1::/64"}},
        "hardware": {
            "head": {"sockets": 1, "cores_per_socket": 2, "memory_mib": 8000},
            "gb200": {
                "architecture": "arm64",
                "sockets": 2,
                "cores_per_socket": 72,
                "numa_nodes": 2,
                "memory_mib": 960000,
                "gpu": {
                    "model": "gb200",
                    "count": 4,
                    "numa": {0: "0-1", 1: "2-3"},
                    "multi_node_nvlink": True,
                },
                "hugepages": [
                    {"size": "2M", "numa_node": 0, "count": 1024},
                    {"size": "2M", "numa_node": 1, "count": 1024},
                ],
                "housekeeping_cpus": "0-1,72-73",
                "kernel": {"iommu": "pt", "numa_balancing": False, "page_size": "64k"},
                "kernel_args": ["init_on_alloc=0"],
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
            *(
                {
                    "name": trays,
                    "role": "worker",
                    "hardware": "gb200",
                    "management": f"fd00:1::{number}01",
                    "nvlink_domain": domain,
                }
                for number, (domain, trays) in enumerate(TRAYS.items(), 1)
            ),
        ],
        "os": {"release": "debian_13"},
        "scheduler": {"kind": "slurm"},
        "software": {
            "repositories": [
                {
                    "name": "nvidia",
                    "uri": "https://mirror.example.net/nvidia",
                    "suite": "/",
                    "key": KEY,
                }
            ],
            "nvidia": {"driver": DRIVER, "imex": DRIVER, "cuda": ["13.0"]},
        },
    }
