"""Inventory of a lab (`lockstep lab`): one head and its workers.

Hardware, addresses and the package versions in the archive come from the lab's state, never from
the nodes themselves. A lab that was made with `--description` has the cluster of that file instead,
with the replacements that docs/lab.md lists.
"""

import json
from pathlib import Path
from typing import Any as _Any

import lockstep.lab_path as _lab_path  # noqa: F401
from lab.description import plan_or_exit as _described_or_exit
from lab.fingerprint_exceptions import EXCEPTIONS as _EXCEPTIONS
from lab.state import Node as _Node
from lab.state import load_or_exit
from lockstep.catalog.os import load as release
from lockstep.inventory import plan_or_exit
from lockstep.roles import declared
from lockstep.spec import every_package

_lab = load_or_exit()
_archive = json.loads(Path(_lab.archive_versions).read_text(encoding="utf-8"))
_of_kubernetes = (
    json.loads(Path(_lab.kubernetes.releases[-1].packages.versions).read_text(encoding="utf-8"))
    if _lab.kubernetes is not None
    else {}
)
_own_kernel = _lab.kernel == "own"
_sysctl = {
    # Sysctls of the network namespace, the only ones that a container can set.
    "net.core.somaxconn": "8192",
    "net.ipv6.conf.all.accept_ra": "0",
    "net.ipv6.conf.default.accept_ra": "0",
    "net.ipv4.tcp_keepalive_time": "300",
}

_head: dict[str, object] = {}
_fabric: dict[str, object] = {"prefix": _lab.fabric_prefix}
_heads_run = ["slurm_controller", "slurm_accounting", "prometheus"]
_scheduler: dict[str, object] = {"kind": "slurm", "partitions": []}

# Machines that are containers share the host's kernel and clock. They have a cgroup v2, but no
# controllers if the host mounts cgroup v1. Slurm 22.05 was not tried with it.
_container: dict[str, object] = {
    "cgroup": "devices" if _lab.os == "debian_13" else "none",
    "boot_loader": "none",
    "clock": "host",
}
if _own_kernel:
    if _lab.kernel_of("head") == "own":  # else, the heads can set those of their networks only
        _sysctl |= {
            "vm.swappiness": "1",
            "vm.max_map_count": "262144",
            "kernel.threads-max": "65536",
        }
    _machine: dict[str, object] = {
        "kernel": {"transparent_hugepages": "madvise", "numa_balancing": False}
    }
    _worker = {
        # The first core of each socket is for the system, the second for jobs.
        "housekeeping_cpus": "0,2",
        "hugepages": [
            {"size": "2M", "numa_node": 0, "count": 64},
            {"size": "2M", "numa_node": 1, "count": 64},
            {"size": "1G", "numa_node": 1, "count": 1},
        ],
        "kernel": {
            "transparent_hugepages": "madvise",
            "transparent_hugepages_defrag": "defer+madvise",
            "numa_balancing": False,
            "iommu": "pt",
            "isolation": ["managed_irq", "nohz_full"],
        },
        "nics": {"count": 1, "rdma": "roce", "rdma_devices": "rxe0", "interfaces": "fabric0"},
    }
else:
    _machine = _container
    _given = _lab.hardware["worker"]
    _cores = _given.sockets * _given.cores_per_socket
    # All threads of the first core, if there is a second core for jobs.
    _first_core = ",".join(str(_cores * thread) for thread in range(_given.threads_per_core))
    _worker = {
        "housekeeping_cpus": _first_core if _cores > 1 else "",
        "nics": {"count": 1, "interfaces": "fabric0"},
    }
    # The role network keeps the address of the rail. The lab itself keeps those of mgmt0, through
    # which a deploy connects, and, with kernels of their own, of both.
    _fabric |= {"manager": "release", "mtu": 1500}

_gpu: dict[str, object] = {"model": "h200", "count": 8, "in_sysfs": False}
_software: dict[str, _Any] = {
    # Kubernetes' packages come from its own repository.
    "versions": {
        name: _archive[name]
        for name in every_package(release(_lab.os), declared())
        if name in _archive and name not in _of_kubernetes
    }
}
if _lab.os == "debian_13" and not _own_kernel:
    # The driver comes from Debian's archive, the rest from a simulated NVIDIA repository.
    _gpu["nvswitch"] = True
    _software |= {
        "repositories": [
            {
                "name": "nvidia",
                "uri": _lab.repository_uri,
                "suite": "/",
                "key": Path(_lab.repository_key).read_text(encoding="ascii"),
            }
        ],
        "nvidia": {
            "packaging": "debian",
            "driver": "550.163.01",
            "cuda": ["12.4"],
            "cuda_parts": "runtime",
            "fabric_manager": "550.163.01",
            "nscq": "550.163.01",
            "dcgm": "4.4.1",
            "dcgm_exporter": "4.4.1",
            "container_toolkit": "1.19.1",
        },
        "containers": {
            "engines": ["docker", "podman"],
            "apptainer": "1.5.3",
            "enroot": "4.1.2",
            "pyxis": "0.24.0",
        },
    }


def _runs(node: _Node) -> list[str]:
    """Return what a node runs; further heads have Kubernetes' control plane only."""
    several = node.name == "head" or _lab.kubernetes is None
    return [] if node.role != "head" else _heads_run if several else _heads_run[:1]


_pods: dict[str, str] = {}
if _lab.kubernetes is not None:
    # Pods and Services have networks beside the lab's own, which is a /64.
    _first = _lab.prefix.removesuffix("::/64").rpartition(":")[0]
    _release = _lab.kubernetes.releases[-1]
    _images = _lab.kubernetes.images
    _heads_run = ["kubernetes_control_plane", "prometheus"]
    _scheduler = {
        "kind": "kubernetes",
        "version": _release.version,
        "pod_prefix": f"{_first}:ffff::/64",
        "service_prefix": f"{_first}:fffe::/108",
        "registry_mirror": _lab.kubernetes.registry,
        "images": {
            "etcd": _images["registry.k8s.io/etcd"],
            "coredns": _images["registry.k8s.io/coredns/coredns"],
            "pause": _images["registry.k8s.io/pause"],
        },
        "system_memory_mib": 512,
        # The images of NVIDIA's GPU operator cannot be had here. A machine with a kernel of its own
        # has no GPUs that a container toolkit could give to pods.
        "gpus": {"deploy": "none"}
        if _own_kernel
        else {
            "deploy": "operands",
            "chart_repository": _lab.kubernetes.charts["nvidia-device-plugin"].rpartition("/")[0],
            "chart_version": _lab.kubernetes.versions["nvidia-device-plugin"],
            "plain_http": True,
        },
        "namespaces": [
            {
                "name": "vision",
                "pod_security": "baseline",
                "quota": {"pods": "20", "requests.nvidia.com/gpu": "8"},
            },
            {"name": "speech", "pod_security": "restricted"},
        ],
        "users": [
            {"name": "ada", "access": {"vision": "edit"}},
            {"name": "grace", "cluster_admin": True},
        ],
        "priority_classes": {
            "urgent": {"value": 1000},
            "batch": {"value": -10, "preempts": False},
        },
        "storage_path": "/srv/volumes",
    }
    if sum(node.role == "head" for node in _lab.nodes) > 1:
        _head["management_interface"] = "mgmt0"
        _scheduler["virtual_address"] = _lab.prefix.replace("::/64", "::f")
    _pods = {
        node.name: f"{_first}:ffff:{number:x}::/80" for number, node in enumerate(_lab.nodes, 1)
    }
    _software["repositories"] = [
        *_software.get("repositories", []),
        {
            "name": "kubernetes",
            "uri": _release.packages.uri,
            "suite": "/",
            "key": Path(_release.packages.key).read_text(encoding="ascii"),
        },
    ]
    _software["containers"] = {"engines": ["containerd"]}

_cluster = (
    _described_or_exit(_lab, __file__)
    if _lab.description is not None
    else plan_or_exit(
        {
            "format": 1,
            "name": _lab.name,
            # Stored with the lab, so that removing the lab removes its secrets and records.
            "secrets_dir": str(Path(_lab.ssh_key).parent / "secrets"),
            "records_dir": str(Path(_lab.ssh_key).parent / "records"),
            "networks": {
                "management": {"prefix": _lab.prefix},
                "fabric": _fabric,
            },
            "hardware": {
                "head": {
                    **_lab.hardware["head"].model_dump(),
                    **(_machine if _lab.kernel_of("head") == "own" else _container),
                    **_head,
                },
                "worker": {
                    **_lab.hardware["worker"].model_dump(),
                    **_machine,
                    **({} if _own_kernel and _lab.kubernetes else {"gpu": _gpu}),
                    **_worker,
                },
            },
            "nodes": [
                {
                    "name": node.name,
                    "role": node.role,
                    "hardware": node.role,
                    "management": node.address,
                    "fabric": node.fabric_address,
                    "runs": _runs(node),
                    "pods": _pods.get(node.name),
                }
                for node in _lab.nodes
            ],
            "os": {
                "release": _lab.os,
                "time_zone": "Etc/UTC",
                "sysctl": _sysctl,
            },
            "access": {
                "user": _lab.ssh_user,
                "key": _lab.ssh_key,
                "known_hosts": _lab.known_hosts,
            },
            "scheduler": _scheduler,
            "checks": {"exceptions": [row._asdict() for row in _EXCEPTIONS]},
            "monitoring": {"scrape_interval_s": 30 if _own_kernel else 5},
            "software": _software,
        },
        __file__,
    )
)

head = _cluster.group("head")
worker = _cluster.group("worker")
