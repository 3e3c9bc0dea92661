"""Our cluster: replace the addresses, the hardware and the names by yours.

pyinfra makes every public list in this file a host group, so other names start with "_".
`lockstep schema` prints all fields of a description.
"""

import sys
from pathlib import Path

from lockstep.inventory import plan_or_exit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from roles.login_notice import LOGIN_NOTICE as _LOGIN_NOTICE

_cluster = plan_or_exit(
    {
        "format": 1,
        "name": "prod",
        "networks": {"management": {"prefix": "192.0.2.0/24"}},
        # One entry for each machine type.
        "hardware": {
            "head": {"sockets": 1, "cores_per_socket": 16, "memory_mib": 64000},
            "l40s": {
                "sockets": 2,
                "cores_per_socket": 24,
                "threads_per_core": 2,
                "numa_nodes": 2,
                "memory_mib": 515000,
                # gpu_models.py shows how to declare a model that Lockstep does not know.
                "gpu": {"model": "l40s", "count": 4},
            },
        },
        # Addresses in a range are consecutive.
        "nodes": [
            {
                "name": "head1",
                "role": "head",
                "hardware": "head",
                "management": "192.0.2.10",
                "runs": ["slurm_accounting", "slurm_controller", "prometheus"],
            },
            {
                "name": "worker[1-2]",
                "role": "worker",
                "hardware": "l40s",
                "management": "192.0.2.101",
            },
        ],
        "os": {"release": "debian_13", "address_family": "ipv4"},
        "scheduler": {"kind": "slurm"},
        # The packages come from Debian's archive: the nodes' apt sources need contrib, non-free and
        # non-free-firmware.
        "software": {
            "nvidia": {
                "packaging": "debian",
                "driver": "550.163.01",
                "cuda": ["12.4"],
                # The libraries only; "toolkit" installs the compiler, too.
                "cuda_parts": "runtime",
            },
        },
        # Settings of our own roles (roles/).
        "extensions": {"login_notice": {"text": "Jobs only: log in to head1."}},
        # Rules of our own. They are data; docs/checks.md of Lockstep lists the fields.
        "checks": {
            "rules": [
                {
                    "id": "site.no_swap",
                    "title": "nodes have no swap",
                    "reading": "memory.swap",
                    "kind": "equal",
                    "expected": [],
                    "source": "our acceptance test",
                    "repair": "on {node}: swapoff --all, and remove it from /etc/fstab",
                },
            ],
        },
    },
    __file__,
    roles=[_LOGIN_NOTICE],
)

head = _cluster.group("head")
worker = _cluster.group("worker")
