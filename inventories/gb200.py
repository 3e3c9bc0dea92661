"""Example of two GB200 NVL72 racks: 36 compute trays with four GPUs each, Ubuntu, arm64.

docs/racks.md explains the fields of racks. Nothing here was tried on a rack.
"""

from pathlib import Path

from lockstep.inventory import plan_or_exit

_keys = Path(__file__).parent / "keys"

_cluster = plan_or_exit(
    {
        "format": 1,
        "name": "gb200",
        "networks": {
            "management": {"prefix": "fd5a:7c1e:3000::/64"},
            # One /64 per rail: rail r of the first tray is fd5a:7c1e:4000:r::101.
            "fabric": {"prefix": "fd5a:7c1e:4000::/56", "rails": 4, "manager": "release"},
        },
        "hardware": {
            "head": {
                "sockets": 1,
                "cores_per_socket": 32,
                "threads_per_core": 2,
                "memory_mib": 257000,
            },
            # A compute tray: two superchips, each with one Grace processor and two GPUs.
            "gb200": {
                "architecture": "arm64",
                "sockets": 2,
                "cores_per_socket": 72,  # Grace has no SMT
                "numa_nodes": 2,
                # Both processors have up to 960 GB. The memory of the GPUs, which the kernel may
                # add as further NUMA nodes, does not count.
                "memory_mib": 870000,
                "gpu": {
                    "model": "gb200",
                    "count": 4,
                    "numa": {0: "0-1", 1: "2-3"},
                    "multi_node_nvlink": True,  # IMEX runs as a service of the node
                },
                "nics": {
                    "count": 4,
                    "speed_gbit": 400,
                    "rdma": "infiniband",
                    "rdma_devices": "mlx5_[0-3]",
                    "interfaces": "ib[0-3]",
                },
                # The default huge page of a kernel with pages of 64 KiB.
                "hugepages": [
                    {"size": "512M", "numa_node": 0, "count": 32},
                    {"size": "512M", "numa_node": 1, "count": 32},
                ],
                # Two whole cores per processor are for the system, daemons and exporters.
                "housekeeping_cpus": "0-1,72-73",
                # NVIDIA's Grace performance tuning guide recommends pages of 64 KiB: the site
                # installs linux-image-generic-64k. Its benchmarking guide has the governor,
                # numa_balancing and init_on_alloc; docs/racks.md has the sources.
                "kernel": {
                    "page_size": "64k",
                    "iommu": "pt",
                    "numa_balancing": False,
                    "cpu_governor": "performance",
                    "transparent_hugepages": "madvise",
                },
                "kernel_args": ["init_on_alloc=0"],
            },
        },
        "nodes": [
            {
                "name": "head1",
                "role": "head",
                "hardware": "head",
                "management": "fd5a:7c1e:3000::11",
                "runs": ["slurm_controller", "slurm_accounting", "prometheus"],
            },
            {
                "name": "rack1-tray[01-18]",
                "role": "worker",
                "hardware": "gb200",
                "management": "fd5a:7c1e:3000::101",
                "fabric": "fd5a:7c1e:4000::101",
                "nvlink_domain": "rack1",
                "leaf_switch": "leaf1",
            },
            {
                "name": "rack2-tray[01-18]",
                "role": "worker",
                "hardware": "gb200",
                "management": "fd5a:7c1e:3000::201",
                "fabric": "fd5a:7c1e:4000::201",
                "nvlink_domain": "rack2",
                "leaf_switch": "leaf2",
            },
        ],
        "os": {"release": "ubuntu_24_04"},
        "scheduler": {
            "kind": "slurm",
            "system_memory_mib": 32768,
            "partitions": [
                {"name": "racks", "nodes": "rack1-tray[01-18],rack2-tray[01-18]", "default": True}
            ],
        },
        "software": {
            "repositories": [
                {
                    # A mirror of https://developer.download.nvidia.com/compute/cuda/repos/
                    # ubuntu2404/sbsa. With NVIDIA's own address, the key must be 3bf863cc.pub,
                    # which that folder has.
                    "name": "nvidia",
                    "uri": "https://packages.example.net/cuda/ubuntu2404/sbsa",
                    "suite": "/",
                    "key": (_keys / "example.net.asc").read_text(encoding="ascii"),
                    "architectures": ["arm64"],
                },
                {
                    # Slurm 25.11, whose topology.yaml has one topology for each partition. The
                    # archive of Ubuntu 24.04 has 23.11, which knows no blocks.
                    "name": "site",
                    "uri": "https://packages.example.net/ubuntu",
                    "suite": "noble",
                    "components": ["main"],
                    "key": (_keys / "example.net.asc").read_text(encoding="ascii"),
                },
            ],
            "nvidia": {
                "packaging": "nvidia",
                "driver": "580.173.02",
                "cuda": ["13.0"],
                "imex": "580.173.02",
            },
            "versions": {
                "slurm-client": "25.11.2-1",
                "slurmctld": "25.11.2-1",
                "slurmd": "25.11.2-1",
                "slurmdbd": "25.11.2-1",
            },
        },
    },
    __file__,
)

head = _cluster.group("head")
worker = _cluster.group("worker")
