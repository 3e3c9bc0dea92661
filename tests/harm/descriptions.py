"""Descriptions from which the mutations start; together they give every optional field."""

from __future__ import annotations

import copy
import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from tests.spec import racks
from tests.spec.kubernetes_example import with_both

ROOT = Path(__file__).resolve().parents[2]


class Base(NamedTuple):
    """A valid description, and the file in which problems of it get their lines."""

    name: str
    description: dict[str, Any]
    file: str


def _of_inventory(name: str) -> dict[str, Any]:
    """The dictionary that an inventory passes."""
    passed: list[dict[str, Any]] = []

    def keep(description: dict[str, Any], file: str) -> object:
        passed.append(description)
        return SimpleNamespace(group=lambda role: [])

    with mock.patch("lockstep.inventory.plan_or_exit", keep):
        runpy.run_path(str(ROOT / "inventories" / f"{name}.py"))
    return passed[0]


def _lab() -> dict[str, Any]:
    """As inventories/lab.py describes machines that are containers."""
    shared = {"sockets": 1, "cores_per_socket": 2, "memory_mib": 4000, "clock": "host"}
    shared |= {"cgroup": "devices", "boot_loader": "none"}
    return {
        "name": "lab",
        "secrets_dir": "/tmp/lab/secrets",
        "records_dir": "/tmp/lab/records",
        "networks": {
            "management": {"prefix": "fd4c:1::/64"},
            "fabric": {"prefix": "fd4c:2::/64"},
        },
        "hardware": {
            "head": shared,
            "worker": {
                **shared,
                "housekeeping_cpus": "0",
                "gpu": {"model": "h200", "count": 8, "in_sysfs": False},
                "nics": {"count": 1},
            },
        },
        "nodes": [
            {
                "name": "head",
                "role": "head",
                "hardware": "head",
                "management": "fd4c:1::10",
                "fabric": "fd4c:2::10",
                "runs": ["slurm_controller", "slurm_accounting", "prometheus"],
            },
            *(
                {
                    "name": f"worker{number}",
                    "role": "worker",
                    "hardware": "worker",
                    "management": f"fd4c:1::10{number}",
                    "fabric": f"fd4c:2::10{number}",
                    "runs": [],
                }
                for number in (1, 2)
            ),
        ],
        "os": {"release": "debian_12", "sysctl": {"net.core.somaxconn": "8192"}},
        "access": {"user": "ops", "key": "/tmp/lab/key", "known_hosts": "/tmp/lab/known_hosts"},
        "scheduler": {"kind": "slurm", "partitions": []},
        "checks": {
            "exceptions": [
                {"domain": "file", "object": "/etc/machine-id", "reason": "each its own"}
            ]
        },
        "monitoring": {"scrape_interval_s": 5},
    }


def _everything() -> dict[str, Any]:
    """The production cluster with what it leaves out, and racks of GB200 beside its workers."""
    wanted = copy.deepcopy(_of_inventory("prod"))
    hgx = wanted["hardware"]["hgx-h200"]
    hgx["gpu"] |= {
        "vendor": "nvidia",
        "compute_mode": "exclusive_process",
        "ecc": True,
        "devices": "/dev/nvidia[0-7]",
        "persistence": True,
        "in_sysfs": True,
        "imex": "host",
        "clocks_mhz": [345, 1980],
        "mig": ["1g.18gb"] * 7,
        "multi_node_nvlink": False,
    }
    hgx |= {"architecture": "x86_64", "cpu_numbering": "threads_last", "clock": "own"}
    hgx |= {"cgroup": "v2", "boot_loader": "grub"}
    hgx["kernel"] |= {"disable_acs_redir": ["0000:15:01.0"], "page_size": "4k"}
    wanted["hardware"]["own"] = {
        **hgx,
        "gpu": {
            "model": {
                "name": "NVIDIA H300",
                "architecture": "hopper",
                "memory_mib": 200000,
                "default_power_limit_w": 700.0,
                "power_limits_w": [200.0, 700.0],
                "max_sm_clock_mhz": 2000,
                "nvlinks": "18 x 26.562 GB/s",
                "mig_profiles": ["1g.18gb"],
            },
            "count": 8,
            "nvswitch": True,
        },
    }
    wanted["nodes"][2] |= {"release": "debian_13", "name": "worker[01-15]", "leaf_switch": "a"}
    wanted["nodes"].append(
        wanted["nodes"][2]
        | {"name": "worker16", "hardware": "own"}
        | {"management": "fd5a:7c1e:1000::200", "fabric": "fd5a:7c1e:2000::200"}
    )
    for number, group in enumerate(wanted["nodes"]):
        group["management_second"] = f"10.1.{number}.1"
        if "fabric" in group:
            group["fabric_second"] = f"10.8.{number}.1"
    wanted["os"] |= {"address_family": "ipv6", "automatic_upgrades": False, "hugetlb_gid": 2000}
    wanted["os"] |= {"locale": "en_US.UTF-8", "memlock": 1048576, "nofile": 65536}
    wanted["os"]["firewall"]["services"] = ["tcp/443", "udp/60000-61000"]
    wanted["access"] = {"user": "ops", "port": 22, "key": "~/.ssh/id", "known_hosts": "~/known"}
    wanted["time"]["max_offset_s"] = 0.01
    wanted["monitoring"] |= {"xid": {13: "ignore", 79: "error"}, "dcgm_exporter_port": 9400}
    wanted["monitoring"] |= {"node_exporter_port": 9100, "prometheus_port": 9090}
    wanted["reboots"] |= {"drain_timeout_s": 3600, "return_timeout_s": 600}
    wanted["scheduler"] |= {"health_check_interval_s": 60, "prolog_check": True}
    wanted["scheduler"] |= {"epilog_check": True}
    wanted["scheduler"]["partitions"][0]["max_time"] = "7-00:00:00"
    wanted["secrets_dir"], wanted["records_dir"] = "/srv/secrets", "/srv/records"
    wanted["unmanaged"] = ["time_sync"]
    wanted["files"] = {
        "/etc/slurm/slurm.conf": {"lines": ["FirstJobId=1000"]},
        "/etc/slurm/cgroup.conf": {"content": "CgroupPlugin=autodetect\n"},
    }
    wanted["nodes"][0]["unmanaged"] = ["node_exporter"]
    wanted["networks"]["fabric"]["rail_length"] = 64
    wanted["networks"]["management"]["second_family"] = {"prefix": "10.1.0.0/16"}
    wanted["networks"]["management"]["second_family"]["gateway"] = "10.1.255.254"
    wanted["networks"]["fabric"]["second_family"] = {"prefix": "10.8.0.0/13", "rail_length": 16}
    for repository in wanted["software"]["repositories"]:
        repository |= {"releases": ["debian_13"], "frozen": True, "architectures": ["x86_64"]}
    wanted["software"]["versions_on"] = {"debian_13": {"slurmd": "24.11.5-4"}}
    rule = {
        "id": "site.no_swap",
        "title": "no swap",
        "reading": "memory.swap",
        "path": ["*"],
        "kind": "equal",
        "expected": [],
        "peers": "class",
        "classes": ["head"],
        "severity": "warning",
        "source": "our test",
        "repair": "on {node}: swapoff --all",
    }
    within = {
        **rule,
        "id": "site.close",
        "kind": "within",
        "expected": None,
        "tolerance": 0.1,
        "bound": "at least",
        "path": [],
    }
    wanted["checks"] = {
        "overrides": [
            {"rule": "gpu.ecc", "off": "delivered so"},
            {"rule": "gpu.name", "severity": "notice", "classes": ["head"]},
            {"rule": "gpu.clock_idle", "tolerance": 0.1},
        ],
        "rules": [rule, within, {**rule, "id": "site.local", "local": "health", "path": []}],
        "exceptions": [
            {"domain": "file", "object": "/etc/x", "field": "mode", "reason": "as delivered"}
        ],
        "accepted": "accepted.toml",
    }
    return wanted


def _racks() -> dict[str, Any]:
    """Racks of GB200, whose nodes share GPU memory."""
    wanted = racks.description()
    wanted["software"]["nvidia"]["imex"] = wanted["software"]["nvidia"]["driver"]
    return wanted


def _rocky() -> dict[str, Any]:
    """The lab's machines with a release of the RHEL family, which has SELinux and firewalld."""
    wanted = _lab()
    wanted["os"] |= {"release": "rocky_9", "selinux": "enforcing"}
    wanted["os"]["firewall"] = {"kind": "firewalld", "trusted": ["10.0.0.0/8"]}
    for hardware in wanted["hardware"].values():
        hardware |= {"cgroup": "v2", "boot_loader": "grub"}
    return wanted


def _pods() -> dict[str, Any]:
    """Slurm and Kubernetes in one cluster, with each of Kubernetes' settings."""
    wanted = with_both()
    wanted["scheduler"][1] |= {
        "dns_domain": "pods.example.net",
        "api_port": 6443,
        "network": "routed",
        "registry_mirror": "https://mirror.example.net",
        "images": {"etcd": "3.6.5-0", "coredns": "v1.12.1", "pause": "3.10.1"},
        "kubelet": {
            "max_pods": 100,
            "topology_policy": "best-effort",
            "image_gc_high_percent": 80,
            "image_gc_low_percent": 70,
            "log_max_size_mib": 10,
            "log_max_files": 3,
        },
        "gpus": {
            "deploy": "operands",
            "chart_repository": "oci://charts.example.net/nvidia",
            "chart_version": "0.19.3",
            "plain_http": True,
        },
    }
    return wanted


@cache
def bases() -> tuple[Base, ...]:
    """All descriptions from which mutations start."""
    prod = str(ROOT / "inventories/prod.py")
    return (
        Base("prod", _of_inventory("prod"), prod),
        Base("small", _of_inventory("small"), str(ROOT / "inventories/small.py")),
        Base("lab", _lab(), str(ROOT / "inventories/lab.py")),
        Base("everything", _everything(), prod),
        Base("rocky", _rocky(), str(ROOT / "inventories/lab.py")),
        Base("racks", _racks(), str(ROOT / "tests/spec/racks.py")),
        Base(
            "kubernetes",
            _of_inventory("kubernetes"),
            str(ROOT / "inventories/kubernetes.py"),
        ),
        Base("pods", _pods(), str(ROOT / "tests/spec/kubernetes_example.py")),
    )
