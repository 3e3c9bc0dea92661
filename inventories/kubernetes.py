"""Example of a cluster with Kubernetes: three heads, sixteen workers with eight GPUs, IPv6.

The machines are those of ``inventories/prod.py``. pyinfra makes every public list in this file a
host group, so other names start with "_". Addresses in a range are consecutive.
"""

from pathlib import Path

from lockstep.inventory import plan_or_exit

_keys = Path(__file__).parent / "keys"

_cluster = plan_or_exit(
    {
        "format": 1,
        "name": "pods",
        "domain": "pods.example.net",
        "networks": {
            "management": {
                "prefix": "fd5a:7c1e:1000::/64",
                "manager": "release",
                "gateway": "fd5a:7c1e:1000::1",
                "name_servers": ["fd5a:7c1e:1000::53"],
            },
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
                # Two whole cores per socket are for the system, the kubelet and exporters.
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
        # Each node has a /64 for its pods: those of worker01 are fd5a:7c1e:3000:100::/64.
        "nodes": [
            {
                "name": "head[1-3]",
                "role": "head",
                "hardware": "head",
                "management": "fd5a:7c1e:1000::11",
                "pods": "fd5a:7c1e:3000:11::/64",
                "runs": ["kubernetes_control_plane"],
            },
            {
                "name": "monitor",
                "role": "head",
                "hardware": "head",
                "management": "fd5a:7c1e:1000::21",
                "runs": ["prometheus"],
            },
            {
                "name": "worker[01-16]",
                "role": "worker",
                "hardware": "hgx-h200",
                "management": "fd5a:7c1e:1000::100",
                "fabric": "fd5a:7c1e:2000::100",
                "pods": "fd5a:7c1e:3000:100::/64",
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
            # What nodes accept from others, pods among them, follows from their roles
            # (docs/firewall.md); the file servers connect back to their clients.
            "firewall": {"kind": "nftables", "trusted": ["fd5a:7c1e:5000::/64"]},
        },
        "time": {"servers": ["time1.example.net", "time2.example.net"]},
        "scheduler": {
            "kind": "kubernetes",
            "version": "1.34.4",
            "pod_prefix": "fd5a:7c1e:3000::/48",
            "service_prefix": "fd5a:7c1e:4000::/108",
            # The heads keep this address: it moves when the one that has it fails.
            "virtual_address": "fd5a:7c1e:1000::10",
            "system_memory_mib": 65536,
            # It has the images of all other registries under their own names.
            "registry_mirror": "https://registry.example.net",
            "namespaces": [
                {
                    "name": "vision",
                    "pod_security": "baseline",
                    "quota": {"requests.nvidia.com/gpu": "64", "pods": "500"},
                },
                {"name": "speech", "pod_security": "restricted"},
            ],
            "users": [
                {"name": "ada", "groups": ["vision"], "access": {"vision": "edit"}},
                {"name": "grace", "cluster_admin": True},
            ],
            "priority_classes": {
                "urgent": {"value": 100000},
                "batch": {"value": -100, "preempts": False},
            },
            "storage_path": "/scratch/volumes",
            "audit": {"days": 90, "size_mib": 200, "files": 20},
            # NVIDIA's GPU operator, without the driver and the toolkit that the nodes have already.
            "gpus": {"deploy": "operator", "chart_version": "v26.7.0"},
            # Certificates of the control plane are renewed three months before they end.
            "certificates": {"valid_days": 365, "renew_days": 90},
            # Each head keeps the snapshots of etcd of a week.
            "snapshots": {"every_hours": 6, "keep": 28},
        },
        "monitoring": {"scrape_interval_s": 30, "retention": "90d"},
        "deploys": {"canary": True, "share": 0.25},
        "reboots": {"at_once": 2},
        "software": {
            "repositories": [
                {
                    "name": "nvidia",
                    "uri": "https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64",
                    "suite": "/",
                    "key": (_keys / "nvidia-debian13.asc").read_text(encoding="ascii"),
                },
                {
                    # It has one minor release: change it with scheduler.version.
                    "name": "kubernetes",
                    "uri": "https://pkgs.k8s.io/core:/stable:/v1.34/deb",
                    "suite": "/",
                    "key": (_keys / "kubernetes.asc").read_text(encoding="ascii"),
                },
                {
                    # What NVIDIA's repository for Debian 13 does not have, and Helm 4.
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
                "cuda_parts": "runtime",
                "fabric_manager": "590.48.01",
                "nscq": "590.48.01",
                "dcgm": "4.6.0",
                "dcgm_exporter": "4.8.3",
                "container_toolkit": "1.19.1",
                # The kernel's part of both is on the host; NCCL and cuFile come with the images.
                "gdrcopy": "2.5.1",
                "nvidia_fs": "2.28.4",
            },
            # NVIDIA's RDMA drivers and libraries instead of the distribution's (docs/fabric.md).
            # The repository "site" has them here; NVIDIA's own is
            # https://linux.mellanox.com/public/repo/doca/3.3.0/debian13/x86_64, suite "./".
            "rdma": {"stack": "doca_ofed", "version": "3.3.0"},
            "containers": {"engines": ["containerd"]},
            # DKMS signs the driver's modules with this key, so that machines with Secure Boot load
            # them (docs/kernel-modules.md). Replace both by those of your site.
            "module_signing": {
                "key": "/srv/lockstep/keys/modules.key",
                "certificate": (_keys / "modules.pem").read_text(encoding="ascii"),
            },
        },
    },
    __file__,
)

head = _cluster.group("head")
worker = _cluster.group("worker")
