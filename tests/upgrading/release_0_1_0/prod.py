"""Example of a production cluster: two heads, sixteen workers with eight GPUs, IPv6.

pyinfra makes every public list in this file a host group, so other names start with "_".
Addresses in a range are consecutive: worker01 has ...:100, worker16 has ...:10f.
"""

from lockstep.inventory import plan_or_exit

_cluster = plan_or_exit(
    {
        "name": "prod",
        "networks": {
            "management": {"prefix": "fd5a:7c1e:1000::/64"},
            # One /64 per rail: rail r of worker01 is fd5a:7c1e:2000:r::100.
            "fabric": {"prefix": "fd5a:7c1e:2000::/56", "rails": 8},
        },
        "hardware": {
            "head": {
                "sockets": 1,
                "cores_per_socket": 32,
                "threads_per_core": 2,
                "memory_mib": 257000,
            },
            "hgx-h200": {
                "sockets": 2,
                "cores_per_socket": 56,
                "threads_per_core": 2,
                "numa_nodes": 2,
                "memory_mib": 2063000,
                "gpu": {"model": "h200", "count": 8, "numa": {0: "0-3", 1: "4-7"}},
                "nics": {
                    "count": 8,
                    "speed_gbit": 400,
                    "rdma": "infiniband",
                    "rdma_devices": "mlx5_[0-7]",
                },
                "hugepages": [
                    {"size": "2M", "numa_node": 0, "count": 32768},
                    {"size": "2M", "numa_node": 1, "count": 32768},
                ],
                # Two whole cores per socket are for the system, daemons and exporters.
                "housekeeping_cpus": "0-1,56-57,112-113,168-169",
                "kernel": {
                    "transparent_hugepages": "madvise",
                    "numa_balancing": False,
                    "cpu_governor": "performance",
                    "iommu": "pt",
                    "isolation": ["managed_irq"],
                },
                "kernel_args": ["init_on_alloc=0"],
            },
        },
        "nodes": [
            {
                "name": "head1",
                "role": "head",
                "hardware": "head",
                "management": "fd5a:7c1e:1000::11",
                "runs": ["slurm_controller", "slurm_accounting"],
            },
            {
                "name": "head2",
                "role": "head",
                "hardware": "head",
                "management": "fd5a:7c1e:1000::12",
                "runs": ["prometheus"],
            },
            {
                "name": "worker[01-16]",
                "role": "worker",
                "hardware": "hgx-h200",
                "management": "fd5a:7c1e:1000::100",
                "fabric": "fd5a:7c1e:2000::100",
            },
        ],
        "os": {
            "release": "debian_13",
            "time_zone": "Etc/UTC",
            "sysctl": {
                "net.core.somaxconn": "4096",
                "net.core.rmem_max": "536870912",
                "net.core.wmem_max": "536870912",
                "net.ipv6.conf.all.accept_ra": "0",
                "net.ipv6.conf.default.accept_ra": "0",
                "vm.swappiness": "1",
            },
        },
        "time": {"servers": ["time1.example.net", "time2.example.net"]},
        "scheduler": {
            "kind": "slurm",
            "system_memory_mib": 65536,
            "partitions": [{"name": "train", "nodes": "worker[01-16]", "default": True}],
        },
        "monitoring": {"scrape_interval_s": 30},
        # A matching set of versions, pinned and checked on every node.
        "software": {
            "versions": {
                "slurm-client": "24.11.5-4",
                "slurmctld": "24.11.5-4",
                "slurmd": "24.11.5-4",
                "slurmdbd": "24.11.5-4",
            }
        },
    },
    __file__,
)

head = _cluster.group("head")
worker = _cluster.group("worker")
