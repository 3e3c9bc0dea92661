"""The simulated cluster of lockstep demo: one head, and sixteen workers with eight GPUs each."""

from lockstep.inventory import plan_or_exit

_cluster = plan_or_exit(
    {
        "format": 1,
        "name": "demo",
        "networks": {
            "management": {"prefix": "2001:db8:1::/64"},
            # One subnet for each of the eight rails: 2001:db8:2:0::/64 to 2001:db8:2:7::/64.
            "fabric": {"prefix": "2001:db8:2::/48", "rails": 8, "manager": "networkd"},
        },
        "hardware": {
            "head": {"sockets": 1, "cores_per_socket": 16, "memory_mib": 64000},
            "hgx-h200": {
                "sockets": 2,
                "cores_per_socket": 48,
                "threads_per_core": 2,
                "numa_nodes": 2,
                "memory_mib": 2000000,
                "gpu": {"model": "h200", "count": 8, "nvswitch": True},
                "nics": {"count": 8, "rdma": "roce", "interfaces": "fabric[0-7]"},
                # The first core of each socket is for the system, the others are for jobs.
                "housekeeping_cpus": "0,48,96,144",
                "hugepages": [
                    {"size": "1G", "numa_node": 0, "count": 64},
                    {"size": "1G", "numa_node": 1, "count": 64},
                ],
                "kernel": {"cpu_governor": "performance", "iommu": "pt"},
            },
        },
        "nodes": [
            {
                "name": "head1",
                "role": "head",
                "hardware": "head",
                "management": "2001:db8:1::10",
                "runs": ["slurm_accounting", "slurm_controller", "prometheus"],
            },
            {
                "name": "gpu[01-16]",
                "role": "worker",
                "hardware": "hgx-h200",
                "management": "2001:db8:1::101",
                "fabric": "2001:db8:2::101",
            },
        ],
        "os": {"release": "debian_13", "sysctl": {"vm.swappiness": "1"}},
        "scheduler": {"kind": "slurm"},
        "software": {
            "nvidia": {
                "driver": "580.82.07",
                "fabric_manager": "580.82.07",
                "cuda": ["13.0"],
                "dcgm": "4.5.0",
                "container_toolkit": "1.19.0",
            },
            "containers": {"engines": ["podman"]},
            "repositories": [
                {
                    "name": "mirror",
                    "uri": "https://mirror.example.net/debian13",
                    "suite": "/",
                    "key": "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n"
                    "none\n-----END PGP PUBLIC KEY BLOCK-----",
                },
            ],
        },
    },
    __file__,
)

head = _cluster.group("head")
worker = _cluster.group("worker")
