"""The plan of Kubernetes' nodes, and that one hardware class is the same under both schedulers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lockstep.files import managed
from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan, NodePlan
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

    paths = planned(change=own).nodes["worker1"].system.paths()
    assert not [path for path in paths if "cni" in path or "pod-routes" in path]


def test_heads_and_workers_have_the_engine_and_one_version() -> None:
    cluster = planned()
    for node in cluster.nodes.values():
        assert node.engines == ("containerd",)
        assert {"kubelet": "1.34.4-*", "kubeadm": "1.34.4-*"}.items() <= (
            node.software.versions.items()
        )
        assert {"kubelet", "kubeadm", "kubectl"} <= set(node.software.held)


def test_kubeadm_knows_the_networks_and_waits_for_a_short_time() -> None:
    text = text_of(planned(), "head1", "/etc/kubernetes/lockstep-kubeadm.yaml")
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


def test_a_class_is_the_same_under_both_schedulers() -> None:
    """Side by side: what the machine gives to jobs does not depend on who starts them."""
    cluster = planned(with_both)
    slurm, pods = cluster.nodes["worker1"], cluster.nodes["worker2"]
    rows: dict[str, Callable[[NodePlan], object]] = {
        "kernel arguments": lambda node: node.system.kernel_args,
        "kernel settings": lambda node: (node.hardware.cpu_files, node.hardware.kernel_files),
        "housekeeping CPUs": lambda node: node.hardware.cpu.housekeeping,
        "huge pages": lambda node: node.hardware.hugepages,
        "GPU settings": lambda node: text_of(
            cluster, node.name, "/usr/local/sbin/lockstep-gpu-settings"
        ),
        "driver": lambda node: node.software.driver,
    }
    for name, of in rows.items():
        assert of(slurm) == of(pods), name
    # Each scheduler leaves the same CPUs alone: Slurm counts them core by core.
    reserved = cpus(kubelet(cluster, "worker2")["reservedSystemCPUs"])
    assert reserved == cpus(slurm.hardware.cpu.housekeeping)
    assert len(cpus(slurm.hardware.slurm.cpu_spec_list)) == len(reserved)
    differing = set(slurm.system.sysctl.items()) ^ set(pods.system.sysctl.items())
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
