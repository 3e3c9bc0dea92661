"""Example of a production cluster: two heads, sixteen workers with eight GPUs, IPv6.

It uses every role except nvidia_imex, which needs multi-node NVLink; ``inventories/small.py`` is a
short example.

pyinfra makes every public list in this file a host group, so other names start with "_".
Addresses in a range are consecutive: worker01 has ...:100, worker16 has ...:10f.
"""

from pathlib import Path

from lockstep.inventory import plan_or_exit

_keys = Path(__file__).parent / "keys"

_cluster = plan_or_exit(
    {
        "format": 1,
        "name": "prod",
        "domain": "prod.example.net",
        "networks": {
            # Lockstep keeps the addresses in the files of the release's own program
            # (docs/network.md). The management interface gets its file at the next boot.
            "management": {
                "prefix": "fd5a:7c1e:1000::/64",
                "manager": "release",
                "gateway": "fd5a:7c1e:1000::1",
                "name_servers": ["fd5a:7c1e:1000::53"],
            },
            # One /64 per rail: rail r of worker01 is fd5a:7c1e:2000:r::100.
            "fabric": {
                "prefix": "fd5a:7c1e:2000::/56",
                "rails": 8,
                "manager": "release",
                "mtu": 4092,
            },
        },
        "hardware": {
            "head": {
                "sockets": 1,
                "cores_per_socket": 32,
                "threads_per_core": 2,
                "memory_mib": 257000,
                "management_interface": "eno1",
            },
            "hgx-h200": {
                "sockets": 2,
                "cores_per_socket": 56,
                "threads_per_core": 2,
                "numa_nodes": 2,
                "memory_mib": 2063000,
                "gpu": {
                    "model": "h200",
                    "count": 8,
                    "numa": {0: "0-3", 1: "4-7"},
                    "nvswitch": True,
                    # Persistence, ECC and the compute mode keep their defaults.
                    "power_limit_w": 700,
                },
                "nics": {
                    "count": 8,
                    "speed_gbit": 400,
                    "rdma": "infiniband",
                    "rdma_devices": "mlx5_[0-7]",
                    "gpudirect": "dma_buf",
                    "interfaces": "ib[0-7]",
                    "ipoib_mode": "datagram",
                },
                "management_interface": "eno1",
                "hugepages": [
                    {"size": "2M", "numa_node": 0, "count": 32768},
                    {"size": "2M", "numa_node": 1, "count": 32768},
                ],
                # Two whole cores per socket are for the system, daemons and exporters.
                "housekeeping_cpus": "0-1,56-57,112-113,168-169",
                # Declared, compared and reported; Lockstep installs no firmware. The versions
                # show the form: declare those that your machines' vendor supports.
                "firmware": {"vbios": "96.00.99.00.01", "rdma": "28.43.2026", "bmc": "1.74"},
                "kernel": {
                    "transparent_hugepages": "madvise",
                    "transparent_hugepages_defrag": "defer+madvise",
                    "numa_balancing": False,
                    "cpu_governor": "performance",
                    "max_cstate": 1,
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
            # What nodes accept from others follows from their roles (docs/firewall.md); the file
            # servers connect back to their clients.
            "firewall": {"kind": "nftables", "trusted": ["fd5a:7c1e:3000::/64"]},
        },
        "time": {"servers": ["time1.example.net", "time2.example.net"]},
        "scheduler": {
            "kind": "slurm",
            "system_memory_mib": 65536,
            "partitions": [{"name": "train", "nodes": "worker[01-16]", "default": True}],
        },
        # Every node has an exporter; head2 runs Prometheus with Lockstep's alerts.
        "monitoring": {"scrape_interval_s": 30, "retention": "90d"},
        "deploys": {"canary": True, "share": 0.25},
        "reboots": {"at_once": 2},
        # One set of versions: validated as a whole, then pinned and checked on every node.
        # docs/nvidia.md says what is known about the packages for Debian 13. NVIDIA no longer
        # supports branch 590.
        "software": {
            "repositories": [
                {
                    "name": "nvidia",
                    "uri": "https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64",
                    "suite": "/",
                    # Lockstep knows the fingerprint of NVIDIA's key, and refuses any other key.
                    "key": (_keys / "nvidia-debian13.asc").read_text(encoding="ascii"),
                },
                {
                    # The packages that NVIDIA's repository for Debian 13 does not have: DCGM and
                    # its exporter, the container toolkit, enroot, pyxis, Apptainer; and DOCA-OFED.
                    # Replace the address and the key by those of your mirror.
                    "name": "site",
                    "uri": "https://packages.example.net/debian",
                    "suite": "trixie",
                    "components": ["main"],
                    "key": (_keys / "example.net.asc").read_text(encoding="ascii"),
                },
            ],
            "nvidia": {
                "packaging": "nvidia",
                "driver": "590.48.01",
                "modules": "open",
                "module_options": {"NVreg_RestrictProfilingToAdminUsers": "0"},
                "cuda": ["13.1"],
                "cuda_parts": "toolkit",
                "fabric_manager": "590.48.01",
                "nscq": "590.48.01",
                "dcgm": "4.6.0",
                "dcgm_exporter": "4.8.3",
                "container_toolkit": "1.19.1",
                "nccl": "2.28.9",
                "gdrcopy": "2.5.1",
                "nvidia_fs": "2.28.4",
                # A program fails if it cannot read around the CPU, instead of being slow.
                "cufile": {"properties.allow_compat_mode": False},
            },
            # NVIDIA's RDMA drivers and libraries instead of the distribution's (docs/fabric.md).
            # The repository "site" has them here; NVIDIA's own is
            # https://linux.mellanox.com/public/repo/doca/3.3.0/debian13/x86_64, suite "./".
            "rdma": {"stack": "doca_ofed", "version": "3.3.0"},
            "containers": {
                "engines": ["podman"],
                "apptainer": "1.5.3",
                "enroot": "4.1.2",
                "pyxis": "0.24.0",
            },
            # DKMS signs the driver's modules with this key, so that machines with Secure Boot load
            # them (docs/kernel-modules.md). Replace both by those of your site.
            "module_signing": {
                "key": "/srv/lockstep/keys/modules.key",
                "certificate": (_keys / "modules.pem").read_text(encoding="ascii"),
            },
            "versions": {
                "libnccl2": "2.28.9-1+cuda13.1",
                "slurm-client": "24.11.5-4+deb13u1",
                "slurmctld": "24.11.5-4+deb13u1",
                "slurmd": "24.11.5-4+deb13u1",
                "slurmdbd": "24.11.5-4+deb13u1",
            },
        },
    },
    __file__,
)

head = _cluster.group("head")
worker = _cluster.group("worker")
