"""The plan of two GB200 racks: NVLink domains, IMEX, and Slurm's blocks."""

from collections.abc import Callable
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan
from lockstep.plan.nvidia import IMEX
from lockstep.plan.slurm import NVML_PLUGIN
from lockstep.roles import declared
from lockstep.spec import load
from tests.spec.racks import description


def planned(change: Callable[[dict[str, Any]], object] = lambda wanted: None) -> ClusterPlan:
    wanted = description()
    change(wanted)
    cluster, problems = load(wanted, declared())
    assert problems == []
    assert cluster is not None
    return plan(cluster)


def files(cluster: ClusterPlan, node: str) -> dict[str, str]:
    return {one.path: one.content.decode() for one in managed(cluster.nodes[node], None)}


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_imex_knows_the_nodes_of_its_rack() -> None:
    cluster = planned()
    path = "/etc/nvidia-imex/nodes_config.cfg"
    assert lines(files(cluster, "a01")[path]) == [f"fd00:1::1{n:02x}" for n in range(1, 19)]
    assert lines(files(cluster, "b18")[path]) == [f"fd00:1::2{n:02x}" for n in range(1, 19)]


def test_groups_with_one_name_are_one_domain_and_a_group_without_a_name_is_its_own() -> None:
    def change(wanted: dict[str, Any]) -> None:
        head, first, second = wanted["nodes"]
        del second["nvlink_domain"]
        first["name"] = "a[01-17]"
        spare = {**first, "name": "spare1", "management": "fd00:1::301"}
        wanted["nodes"] = [head, first, second, spare]

    cluster = planned(change)
    assert cluster.nodes["b01"].node.nvlink_domain == "b01"
    assert cluster.slurm is not None
    (blocks,) = cluster.slurm.topologies.every
    assert blocks.units == {"rack1": "a[01-17],spare1", "b01": "b[01-18]"}


def test_a_rack_is_a_block_of_slurm() -> None:
    found = files(planned(), "head1")
    assert "\nTopologyPlugin=topology/block\n" in found["/etc/slurm/slurm.conf"]
    assert lines(found["/etc/slurm/topology.conf"]) == [
        "BlockName=rack1 Nodes=a[01-18]",
        "BlockName=rack2 Nodes=b[01-18]",
        "BlockSizes=18",
    ]


def test_the_smallest_rack_is_the_size_of_a_block() -> None:
    cluster = planned(lambda wanted: wanted["nodes"][2].update(name="b[01-16]"))
    assert "\nBlockSizes=16\n" in files(cluster, "head1")["/etc/slurm/topology.conf"]


def test_workers_outside_of_racks_leave_the_topology_out_with_a_note() -> None:
    def change(wanted: dict[str, Any]) -> None:
        plain = {"name": "c[1-2]", "role": "worker", "hardware": "head"}
        wanted["nodes"].append({**plain, "management": "fd00:1::401"})

    cluster = planned(change)
    assert "/etc/slurm/topology.conf" not in files(cluster, "head1")
    assert "TopologyPlugin" not in files(cluster, "head1")["/etc/slurm/slurm.conf"]
    assert any("workers without a domain: c[1-2]" in note for note in cluster.notes)


def test_the_driver_creates_the_channel_that_imex_needs() -> None:
    node = planned().nodes["a01"]
    modprobe = files(node.cluster, "a01")["/etc/modprobe.d/50-lockstep-nvidia.conf"]
    assert "\noptions nvidia NVreg_CreateImexChannel0=1\n" in modprobe
    assert node.nvidia is not None
    assert node.nvidia.driver.parameters == {"CreateImexChannel0": "1"}


def test_the_site_can_decide_otherwise_about_the_channel() -> None:
    option = {"NVreg_CreateImexChannel0": "0"}
    cluster = planned(lambda wanted: wanted["software"]["nvidia"].update(module_options=option))
    nvidia = cluster.nodes["a01"].nvidia
    assert nvidia is not None
    assert nvidia.driver.parameters == {"CreateImexChannel0": "0"}


def test_compute_domains_and_the_service_of_the_node_exclude_each_other() -> None:
    node = planned().nodes["a01"]
    assert "nvidia_imex" in node.roles
    assert IMEX in node.system.units
    assert IMEX not in node.system.forbidden_units

    def change(wanted: dict[str, Any]) -> None:
        wanted["hardware"]["gb200"]["gpu"]["imex"] = "compute_domains"
        wanted["unmanaged"] = ["slurm_worker"]

    node = planned(change).nodes["a01"]
    assert "nvidia_imex" not in node.roles
    assert IMEX not in node.system.units
    assert IMEX in node.system.forbidden_units
    assert "nvidia-imex" in node.software.packages, "the container uses the node's program"
    assert "CreateImexChannel0" not in files(node.cluster, "a01").get(
        "/etc/modprobe.d/50-lockstep-nvidia.conf", ""
    )


def test_slurm_counts_the_gpus_of_a_tray() -> None:
    found = files(planned(), "head1")["/etc/slurm/slurm.conf"]
    (line,) = [line for line in found.splitlines() if line.startswith("NodeName=")]
    assert line.startswith(
        "NodeName=a[01-18],b[01-18] CPUs=144 Boards=1 SocketsPerBoard=2 CoresPerSocket=72 "
        "ThreadsPerCore=1 "
    )
    assert " Gres=gpu:gb200:4 " in line


# -- arm64


def test_the_kernel_arguments_are_those_of_arm64() -> None:
    args = planned().nodes["a01"].system.kernel_args
    assert "iommu.passthrough=1" in args
    assert "init_on_alloc=0" in args
    assert not [one for one in args if one.startswith(("iommu=", "intel_", "processor."))]
    assert "rcu_nocbs=2-71,74-143" in args, "one thread per core"


def test_a_node_gets_the_repositories_of_its_architecture() -> None:
    def change(wanted: dict[str, Any]) -> None:
        (first,) = wanted["software"]["repositories"]
        wanted["software"]["repositories"] = [
            {**first, "name": "x86", "architectures": ["x86_64"]},
            {**first, "name": "arm", "suite": "sbsa/", "architectures": ["arm64"]},
        ]

    nodes = planned(change).nodes
    assert [one.name for one in nodes["head1"].software.repositories] == ["x86"]
    assert [one.name for one in nodes["a01"].software.repositories] == ["arm"]


@pytest.mark.parametrize("first", ["a01", "c1"])
def test_one_role_has_the_paths_of_each_architecture(first: str) -> None:
    """Nodes share what they know of a role; those of another architecture have their own."""

    def change(wanted: dict[str, Any]) -> None:
        head = wanted["hardware"]["head"]
        wanted["hardware"]["x86"] = {**head, "gpu": {"model": "l40s", "count": 2}}
        plain = {"name": "c[1-2]", "role": "worker", "hardware": "x86"}
        wanted["nodes"].append({**plain, "management": "fd00:1::401"})

    nodes = planned(change).nodes
    second = "c1" if first == "a01" else "a01"
    read = {
        name: nodes[name].roles["slurm_worker"].units[0].starts_with(nodes[name])
        for name in (first, second)
    }
    assert NVML_PLUGIN in read["c1"]
    assert NVML_PLUGIN.replace("x86_64", "aarch64") in read["a01"]
    assert NVML_PLUGIN not in read["a01"]


def test_the_libraries_are_in_the_folder_of_arm64() -> None:
    nodes = planned().nodes
    assert nodes["a01"].release.local(NVML_PLUGIN) == NVML_PLUGIN.replace("x86_64", "aarch64")
    assert nodes["head1"].release.local(NVML_PLUGIN) == NVML_PLUGIN
