"""The plan of Kubernetes' nodes, and that one hardware class is the same under both schedulers."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lockstep.files import managed
from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan
from lockstep.plan.kubernetes import KUBEADM_CONFIG
from lockstep.plan.kubernetes_operator import operator_labels, values
from lockstep.roles import declared
from lockstep.spec import load
from lockstep.spec.names import cpus
from tests.spec.kubernetes_example import description, with_both


def planned(
    make: Callable[[], dict[str, Any]] = description,
    change: Callable[[dict[str, Any]], object] = lambda wanted: None,
) -> ClusterPlan:
    wanted = make()
    change(wanted)
    cluster, problems = load(wanted, declared())
    assert cluster is not None, problems
    return plan(cluster)


def text_of(cluster: ClusterPlan, node: str, path: str) -> str:
    (found,) = (one for one in managed(cluster.nodes[node], None) if one.path == path)
    return found.content.decode()


def kubelet(cluster: ClusterPlan, node: str) -> dict[str, Any]:
    found = yaml.safe_load(
        text_of(cluster, node, "/etc/kubernetes/kubelet.conf.d/50-lockstep.conf")
    )
    assert isinstance(found, dict)
    return found


def test_jobs_get_whole_cpus_and_the_system_keeps_its_own() -> None:
    found = kubelet(planned(), "worker1")
    assert found["cpuManagerPolicy"] == "static"
    assert found["reservedSystemCPUs"] == "0,8,16,24"
    assert found["cgroupDriver"] == "systemd"
    assert found["failSwapOn"] is True


def test_the_reserved_memory_is_the_sum_that_the_memory_manager_demands() -> None:
    """reservedMemory = systemReserved + kubeReserved + the hard eviction threshold."""
    found = kubelet(planned(), "worker1")
    spread = [row["limits"]["memory"] for row in found["reservedMemory"]]
    total = sum(int(one.removesuffix("Mi")) for one in spread)
    system = int(found["systemReserved"]["memory"].removesuffix("Mi"))
    evicted = int(found["evictionHard"]["memory.available"].removesuffix("Mi"))
    assert [row["numaNode"] for row in found["reservedMemory"]] == [0, 1]
    assert total == system + evicted == 1024


def test_machines_without_controllers_limit_nothing() -> None:
    cluster = planned(change=lambda wanted: wanted["hardware"]["hgx"].update(cgroup="devices"))
    found = kubelet(cluster, "worker1")
    # An empty list would mean "pods", and the kubelet would not start.
    assert found["enforceNodeAllocatable"] == ["none"]
    assert "cpuManagerPolicy" not in found
    assert found["cgroupDriver"] == "cgroupfs"


def test_each_node_routes_to_the_pods_of_the_others() -> None:
    lines = text_of(planned(), "worker2", "/etc/lockstep/pod-routes").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "fd00:2:0:10::/64 fd00:1::10",
        "fd00:2:0:101::/64 fd00:1::101",
    ]
    network = json.loads(text_of(planned(), "worker2", "/etc/cni/net.d/10-lockstep.conflist"))
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "fd00:2:0:102::/64"}]]


def test_a_site_with_its_own_network_keeps_it() -> None:
    def own(wanted: dict[str, Any]) -> None:
        wanted["scheduler"]["network"] = "site"
        for group in wanted["nodes"]:
            del group["pods"]

    cluster = planned(change=own)
    paths = cluster.nodes["worker1"].system.paths()
    assert not [path for path in paths if "cni" in path or "pod-routes" in path]
    # Such as that of a plugin that takes each node's network from its Node object.
    assert "allocate-node-cidrs" not in text_of(cluster, "head1", KUBEADM_CONFIG)
    assert "allocate-node-cidrs" in text_of(planned(), "head1", KUBEADM_CONFIG)


def test_heads_and_workers_have_the_engine_and_one_version() -> None:
    cluster = planned()
    for node in cluster.nodes.values():
        assert node.engines == ("containerd",)
        assert {"kubelet": "1.34.4-*", "kubeadm": "1.34.4-*"}.items() <= (
            node.software.versions.items()
        )
        assert {"kubelet", "kubeadm", "kubectl"} <= set(node.software.held)


def test_kubeadm_knows_the_networks_and_waits_for_a_short_time() -> None:
    text = text_of(planned(), "head1", KUBEADM_CONFIG)
    documents = {one["kind"]: one for one in yaml.safe_load_all(text)}
    cluster, init = documents["ClusterConfiguration"], documents["InitConfiguration"]
    assert cluster["kubernetesVersion"] == "v1.34.4"
    assert cluster["controlPlaneEndpoint"] == "[fd00:1::10]:6443"
    assert cluster["networking"]["podSubnet"] == "fd00:2::/48"
    assert documents["KubeProxyConfiguration"]["mode"] == "nftables"
    # kubeadm's own limits are minutes.
    assert all(int(one.removesuffix("s")) <= 90 for one in init["timeouts"].values())


@pytest.mark.parametrize("role", ["slurm_worker", "kubernetes_worker"])
def test_a_worker_belongs_to_one_scheduler(role: str) -> None:
    nodes = planned(with_both).nodes
    having = [name for name, node in nodes.items() if role in node.roles]
    assert having == [{"slurm_worker": "worker1", "kubernetes_worker": "worker2"}[role]]
    assert {"slurm_controller", "kubernetes_control_plane"} <= set(nodes["head1"].roles)
    slurm = nodes["head1"].cluster.slurm
    assert slurm is not None
    assert list(slurm.nodes) == ["worker1"]


def of_one_class() -> dict[str, Any]:
    """Both schedulers, and a class that declares all that one of them could get wrong."""
    wanted = with_both()
    wanted["hardware"]["hgx"] |= {
        "kernel": {
            "transparent_hugepages": "madvise",
            "cpu_governor": "performance",
            "iommu": "pt",
            "isolation": ["managed_irq", "nohz_full"],
        },
        "hugepages": [
            {"size": "2M", "numa_node": 0, "count": 1024},
            {"size": "2M", "numa_node": 1, "count": 512},
            {"size": "1G", "numa_node": 1, "count": 2},
        ],
    }
    wanted["hardware"]["hgx"]["gpu"] |= {
        "persistence": True,
        "ecc": True,
        "mig": ["3g.71gb", "1g.18gb", "1g.18gb"],
        "clocks_mhz": [1200, 1755],
        "power_limit_w": 600,
        "compute_mode": "exclusive_process",
    }
    slurm, pods = wanted["scheduler"]
    wanted["scheduler"] = [
        {**slurm, "system_memory_mib": 1024},
        {**pods, "system_memory_mib": 1024},
    ]
    return wanted


GRUB = "/etc/default/grub.d/50-lockstep.cfg"
GPU_SETTINGS = "/usr/local/sbin/lockstep-gpu-settings"
UNITS = "/etc/systemd/system"
IN_FILES = {
    "huge pages at boot": (GRUB, r"hugepagesz=\S+ hugepages=\S+"),
    "CPUs of interrupts": (GRUB, r"irqaffinity=(\S+)"),
    "CPUs of RCU callbacks": (GRUB, r"rcu_nocbs=(\S+)"),
    "CPUs without a tick": (GRUB, r"nohz_full=(\S+)"),
    "isolated CPUs": (GRUB, r"isolcpus=(\S+)"),
    "IOMMU": (GRUB, r"iommu=(\S+)"),
    "pages of 2 MiB": (f"{UNITS}/dev-hugepages.mount.d/50-lockstep.conf", "pagesize=([^,]+)"),
    "pages of 1 GiB": (f"{UNITS}/dev-hugepages1G.mount", "pagesize=([^,]+)"),
    "CPUs of systemd": ("/etc/systemd/system.conf.d/50-lockstep-cpus.conf", "CPUAffinity=(.+)"),
    "CPUs of services": (f"{UNITS}/service.d/50-lockstep-cpus.conf", "AllowedCPUs=(.+)"),
    "CPUs of logins": (f"{UNITS}/user.slice.d/50-lockstep.conf", "AllowedCPUs=(.+)"),
    "CPUs of kernel threads": (
        "/etc/tmpfiles.d/50-lockstep-cpus.conf",
        r"workqueue/cpumask.* (\S+)\n",
    ),
    "transparent huge pages": (
        "/etc/tmpfiles.d/50-lockstep-kernel.conf",
        r"transparent_hugepage/enabled.* (\S+)\n",
    ),
    "governor": ("/etc/tmpfiles.d/50-lockstep-kernel.conf", r"scaling_governor.* (\S+)\n"),
    "GPU persistence": (GPU_SETTINGS, r"-pm (\d)"),
    "GPU power limit": (GPU_SETTINGS, r"-pl (\S+)"),
    "GPU clocks": (GPU_SETTINGS, r"-lgc (\S+)"),
    "GPU compute mode": (GPU_SETTINGS, r"-c (\d)"),
    "GPU ECC": (GPU_SETTINGS, r"-e (\d)"),
    "GPU MIG devices": (GPU_SETTINGS, r"-cgi (\S+)"),
}
"""Setting -> the file of a node that has it, and where it is there."""
DECLARED = {
    "huge pages at boot": "hugepagesz=1G hugepages=0:0,1:2 hugepagesz=2M hugepages=0:1024,1:512",
    "CPUs of interrupts": "0,8,16,24",
    "CPUs of RCU callbacks": "1-7,9-15,17-23,25-31",
    "CPUs without a tick": "1-7,9-15,17-23,25-31",
    "isolated CPUs": "managed_irq,1-7,9-15,17-23,25-31",
    "IOMMU": "pt",
    "pages of 2 MiB": "2M",
    "pages of 1 GiB": "1G",
    "CPUs of systemd": "0 8 16 24",
    "CPUs of services": "0 8 16 24",
    "CPUs of logins": "0 8 16 24",
    "CPUs of kernel threads": "1010101",
    "transparent huge pages": "madvise",
    "governor": "performance",
    "GPU persistence": "1",
    "GPU power limit": "600",
    "GPU clocks": "1200,1755",
    "GPU compute mode": "3",
    "GPU ECC": "1",
    "GPU MIG devices": "3g.71gb,1g.18gb,1g.18gb",
    "CPUs that jobs do not get": "0,8,16,24",
    "memory that jobs do not get": "1024 MiB",
    "MIG devices that jobs get": "1g.18gb: 16, 3g.71gb: 8",
}
"""Setting -> its value, as ``of_one_class`` declares it."""
DIFFERING = {
    "/etc/apt/preferences.d/90-lockstep": "each scheduler has its own packages",
    "/etc/containerd/lockstep-cri.toml": "pods need the kubelet's interface and its cgroups",
    "/etc/default/prometheus-node-exporter": "the exporter listens on the node's own address",
    "/etc/hostname": "each node has its own name",
    "/etc/lockstep/node-check.json": "the node check drains in the node's scheduler",
    "/etc/sysctl.d/99-zz-lockstep.conf": "a node of Kubernetes forwards packets of its pods",
    f"{UNITS}/lockstep-gpu-settings.service": "GPUs are set before the kubelet starts",
}
"""File of both workers whose content may differ -> the reason."""


def files(cluster: ClusterPlan, node: str) -> dict[str, str]:
    return {one.path: one.content.decode() for one in managed(cluster.nodes[node], None)}


def in_files(cluster: ClusterPlan, node: str) -> dict[str, str]:
    texts, found = files(cluster, node), {}
    for name, (path, pattern) in IN_FILES.items():
        matches = list(re.finditer(pattern, texts.get(path, "")))
        shown = [one.group(one.re.groups) for one in matches]
        found[name] = " ".join(shown) or "missing"
    return found


def of_slurm(cluster: ClusterPlan) -> dict[str, str]:
    """What slurm.conf says of worker1."""
    line = re.search(r"NodeName=worker1 .*", files(cluster, "head1")["/etc/slurm/slurm.conf"])
    assert line is not None
    of_node = dict(word.split("=", 1) for word in line.group().split())
    # slurm.conf(5) numbers core by core; Linux numbers the first threads of all 16 cores first.
    reserved = [one % 2 * 16 + one // 2 for one in cpus(of_node["CpuSpecList"])]
    gres = [one.split(":") for one in of_node["Gres"].split(",")]
    return {
        "CPUs that jobs do not get": ",".join(map(str, sorted(reserved))),
        "memory that jobs do not get": f"{of_node['MemSpecLimit']} MiB",
        "MIG devices that jobs get": ", ".join(
            f"{kind.rpartition('_')[2]}: {count}" for _, kind, count in gres
        ),
    }


def of_kubernetes(cluster: ClusterPlan) -> dict[str, str]:
    """What the kubelet of worker2 is told, and what its GPUs are offered as."""
    found = kubelet(cluster, "worker2")
    reserved = [row["limits"]["memory"].removesuffix("Mi") for row in found["reservedMemory"]]
    (layout,) = operator_labels(cluster.nodes["worker2"]).values()
    manager = values(cluster.nodes["head1"])["migManager"]["config"]["data"]["config.yaml"]
    (divided,) = yaml.safe_load(manager)["mig-configs"][layout]
    assert divided["devices"] == "all"
    return {
        "CPUs that jobs do not get": found["reservedSystemCPUs"],
        "memory that jobs do not get": f"{sum(map(int, reserved))} MiB",
        "MIG devices that jobs get": ", ".join(
            f"{profile}: {8 * count}" for profile, count in divided["mig-devices"].items()
        ),
    }


def side_by_side(*columns: tuple[str, dict[str, str]]) -> str:
    """A table with a row for each setting; rows whose values differ have a mark."""
    rows = [
        [name, *(one.get(name, "missing") for _, one in columns)]
        for name in dict.fromkeys(name for _, one in columns for name in one)
    ]
    head = ["setting", *(title for title, _ in columns)]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(
            [
                " " if len(set(row[1:])) == 1 or row is head else "!",
                *(value.ljust(width) for value, width in zip(row, widths, strict=True)),
            ]
        ).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(["", *lines])


def test_a_class_is_the_same_under_both_schedulers() -> None:
    """What the machine gives to jobs does not depend on the scheduler that starts them."""
    cluster = planned(of_one_class)
    slurm = {**in_files(cluster, "worker1"), **of_slurm(cluster)}
    pods = {**in_files(cluster, "worker2"), **of_kubernetes(cluster)}
    columns = (("declared", DECLARED), ("Slurm", slurm), ("Kubernetes", pods))
    assert slurm == pods == DECLARED, side_by_side(*columns)


def test_files_of_a_class_differ_between_schedulers_for_a_reason() -> None:
    cluster = planned(of_one_class)
    slurm, pods = files(cluster, "worker1"), files(cluster, "worker2")
    shared = slurm.keys() & pods.keys()
    assert {path for path in shared if slurm[path] != pods[path]} == set(DIFFERING)
    differing = set(cluster.nodes["worker1"].system.sysctl.items()) ^ set(
        cluster.nodes["worker2"].system.sysctl.items()
    )
    assert dict(differing) == {"net.ipv6.conf.all.forwarding": "1"}


def test_firewall_lets_pods_and_the_administrator_in() -> None:
    cluster = planned(change=lambda wanted: wanted["os"].update(firewall={"kind": "nftables"}))
    of = {name: " ".join(node.firewall.rules) for name, node in cluster.nodes.items()}
    assert 'ip6 saddr fd00:2::/48 accept comment "pods"' in of["worker1"]
    assert "tcp dport 6443" in of["head1"]
    assert "tcp dport 6443" not in of["worker1"]


@pytest.mark.parametrize(
    ("booted", "held", "kept"),
    [(True, True, False), (True, False, False), (False, True, True), (False, False, False)],
)
def test_the_kubelet_forgets_what_no_container_can_have(
    tmp_path: Path, booted: bool, held: bool, kept: bool
) -> None:
    """Otherwise it ends, because after a reboot the machine has other huge pages."""
    script = text_of(planned(), "worker1", "/usr/local/libexec/lockstep/kubelet-state")
    for folder in ("/var/lib/kubelet", "/run/lockstep"):
        assert folder in script
        (tmp_path / folder[1:]).mkdir(parents=True)
        script = script.replace(folder, f"{tmp_path}{folder}")
    state = tmp_path / "var/lib/kubelet/memory_manager_state"
    entries = '"entries":{"pod":{}},' if held else ""
    state.write_text(f'{{"policyName":"Static",{entries}"checksum":1}}')
    if not booted:
        (tmp_path / "run/lockstep/kubelet-started").touch()
    subprocess.run(["sh", "-c", script], check=True)
    assert state.exists() == kept
    assert (tmp_path / "run/lockstep/kubelet-started").exists()
    subprocess.run(["sh", "-c", script], check=True)
