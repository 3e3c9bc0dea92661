"""Example of a small cluster: one head, two workers with four PCIe GPUs each, IPv4."""

from lockstep.inventory import plan_or_exit

_cluster = plan_or_exit(
    {
        "format": 1,
        "name": "small",
        "networks": {"management": {"prefix": "192.0.2.0/24"}},
        "hardware": {
            "head": {"sockets": 1, "cores_per_socket": 16, "memory_mib": 64000},
            "gpu": {
                "sockets": 2,
                "cores_per_socket": 24,
                "threads_per_core": 2,
                "numa_nodes": 2,
                "memory_mib": 515000,
                "gpu": {"model": "l40s", "count": 4},
            },
        },
        "nodes": [
            {
                "name": "head",
                "role": "head",
                "hardware": "head",
                "management": "192.0.2.10",
                "runs": ["slurm_accounting", "slurm_controller", "prometheus"],
            },
            {
                "name": "worker[1-2]",
                "role": "worker",
                "hardware": "gpu",
                "management": "192.0.2.101",
            },
        ],
        "os": {"release": "debian_13", "address_family": "ipv4"},
        "scheduler": {"kind": "slurm"},
        # The packages come from Debian's archive: the nodes' apt sources need contrib, non-free and
        # non-free-firmware.
        "software": {
            "nvidia": {"packaging": "debian", "driver": "550.163.01", "cuda": ["12.4"]},
        },
    },
    __file__,
)

head = _cluster.group("head")
worker = _cluster.group("worker")
