"""Slurm's lines: memory, CPUs, GPUs and partitions."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lockstep.catalog import gpus
from lockstep.files import managed
from lockstep.plan import ClusterPlan, cpu, slurm
from lockstep.plan.slurm import SlurmPlan
from lockstep.plan.topology import Topologies
from lockstep.spec.schedulers import Partition
from tests.plan.example import machine, planned
from tests.spec.nvidia_example import description

PLUGIN = "slurm-wlm-nvml-plugin"


def gres(**gpu: object) -> Mapping[str, str]:
    hardware = machine(gpu={"model": "h200", "count": 8, **gpu})
    return slurm.node_plan(hardware, cpu.plan(hardware), 0).gres_lines


def whole(plan: SlurmPlan | None) -> SlurmPlan:
    assert plan is not None
    return plan


def test_real_memory_is_95_percent_less_the_huge_pages() -> None:
    hardware = machine(hugepages=[{"size": "1G", "numa_node": 0, "count": 10}])
    node = slurm.node_plan(hardware, cpu.plan(hardware), 2048)
    assert node.hardware.slurm_memory_mib == 64000 * 95 // 100 - 10 * 1024 == 50560
    assert node.mem_spec_limit_mib == 2048


def test_a_class_without_gpus_has_no_generic_resources() -> None:
    hardware = machine()
    node = slurm.node_plan(hardware, cpu.plan(hardware), 0)
    assert (node.gres, node.gres_lines) == ("", {})


def test_gpus_are_spread_over_the_numa_nodes_in_order() -> None:
    assert gres() == {
        "/dev/nvidia[0-3]": "0-7",
        "/dev/nvidia[4-7]": "8-15",
    }


def test_declared_slots_are_kept() -> None:
    assert gres(numa={1: "0-1,4-5", 0: "2-3,6-7"}) == {
        "/dev/nvidia[2-3,6-7]": "0-7",
        "/dev/nvidia[0-1,4-5]": "8-15",
    }


def test_a_numa_node_without_gpus_has_no_line() -> None:
    assert gres(numa={0: "0-7", 1: ""}) == {"/dev/nvidia[0-7]": "0-7"}


def test_a_single_gpu_has_no_brackets() -> None:
    assert gres(count=1) == {"/dev/nvidia0": "0-7"}


def test_other_devices_are_listed_by_name() -> None:
    assert gres(count=2, devices="/dev/left,/dev/right", numa={0: "0-1"}) == {
        "/dev/left,/dev/right": "0-7",
    }


@pytest.mark.parametrize("count", range(1, 17))
@pytest.mark.parametrize("numa_nodes", [1, 2, 4, 8])
def test_each_gpu_is_on_one_numa_node_and_the_gpus_are_spread(count: int, numa_nodes: int) -> None:
    gpu = machine(gpu={"model": "h200", "count": count}).gpu
    assert gpu is not None
    spread = slurm.gpu_numa(gpu, numa_nodes)
    assert sorted(slot for slots in spread.values() for slot in slots) == list(range(count))
    assert set(spread) <= set(range(numa_nodes))
    sizes = [len(spread.get(node, ())) for node in range(numa_nodes)]
    assert max(sizes) - min(sizes) <= 1


def test_the_example_cluster() -> None:
    worker = planned().classes["hgx", "debian_13"].slurm
    assert planned().slurm == SlurmPlan(
        nodes={"worker[1-4]": worker},
        partitions=(
            Partition(name="train", nodes="worker[1-4]", default=True, max_time="UNLIMITED"),
            Partition(name="debug", nodes="worker1", default=False, max_time="UNLIMITED"),
        ),
        # (64000 x 0.95 - 2048 of huge pages - 2048 for the system) / 32 CPUs
        def_mem_per_cpu_mib=(60800 - 2048 - 2048) // 32,
        cgroup="v2",
        gpu_types=("h200",),
        features={},
        topologies=Topologies(),
    )


def test_without_partitions_one_holds_every_worker() -> None:
    plan = planned(lambda wanted: wanted["scheduler"].update(partitions=[]))
    assert whole(plan.slurm).partitions == (
        Partition(name="batch", nodes="worker[1-4]", default=True, max_time="UNLIMITED"),
    )


@pytest.mark.parametrize("use", ["v2", "devices", "none"])
def test_the_workers_decide_what_slurm_uses_of_cgroups(use: str) -> None:
    plan = planned(lambda wanted: wanted["hardware"]["hgx"].update(cgroup=use))
    assert whole(plan.slurm).cgroup == use
    heads_only = planned(lambda wanted: wanted["hardware"]["head"].update(cgroup=use))
    assert whole(heads_only.slurm).cgroup == "v2"


def test_devices_alone_are_limited_where_there_are_no_controllers() -> None:
    plan = planned(lambda wanted: wanted["hardware"]["hgx"].update(cgroup="devices"))
    files = {file.path: file.content.decode() for file in managed(plan.nodes["head1"], None)}
    keys = [line for line in files["/etc/slurm/cgroup.conf"].splitlines() if line[0] != "#"]
    assert keys == ["CgroupPlugin=cgroup/v2", "ConstrainDevices=yes"]
    lines = files["/etc/slurm/slurm.conf"].splitlines()
    assert {
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/cgroup,task/affinity",
        "JobAcctGatherType=jobacct_gather/linux",
        "PrologFlags=Alloc,Contain",
    } <= {*lines}


def test_two_classes_get_a_line_each_and_the_smallest_memory_per_cpu() -> None:
    def second_class(wanted: dict[str, Any]) -> None:
        wanted["hardware"]["lean"] = {"sockets": 1, "cores_per_socket": 16, "memory_mib": 16000}
        wanted["nodes"].append(
            {"name": "lean[1-2]", "role": "worker", "hardware": "lean", "management": "fd00:1::200"}
        )
        wanted["scheduler"]["partitions"] = []

    plan = whole(planned(second_class).slurm)
    assert list(plan.nodes) == ["worker[1-4]", "lean[1-2]"]
    assert plan.partitions[0].nodes == "lean[1-2],worker[1-4]"
    assert plan.def_mem_per_cpu_mib == (15200 - 2048) // 16
    assert plan.gpu_types == ("h200",)
    assert plan.cgroup == "v2"


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [("v2", "devices", "devices"), ("devices", "none", "none"), ("none", "v2", "none")],
)
def test_two_classes_use_what_both_support(first: str, second: str, both: str) -> None:
    def second_class(wanted: dict[str, Any]) -> None:
        wanted["hardware"]["hgx"]["cgroup"] = first
        wanted["hardware"]["lean"] = {**wanted["hardware"]["head"], "cgroup": second}
        wanted["nodes"].append(
            {"name": "lean1", "role": "worker", "hardware": "lean", "management": "fd00:1::200"}
        )

    assert whole(planned(second_class).slurm).cgroup == both


def test_no_scheduler_no_slurm() -> None:
    def heads_only(wanted: dict[str, Any]) -> None:
        del wanted["scheduler"]
        wanted["nodes"] = [wanted["nodes"][1]]

    assert planned(heads_only).slurm is None


@pytest.mark.parametrize(
    ("model", "mig", "declared"),
    [
        ("h200", ["3g.71gb", "3g.71gb"], "gpu:nvidia_h200_3g.71gb:16"),
        (
            "h200",
            ["3g.71gb", "2g.35gb", "1g.18gb+me"],
            "gpu:nvidia_h200_1g.18gb+me:8,gpu:nvidia_h200_2g.35gb:8,gpu:nvidia_h200_3g.71gb:8",
        ),
        # The node check reads the types in the order of their texts, with the counts.
        (
            "h200",
            ["1g.18gb", "1g.18gb+me"],
            "gpu:nvidia_h200_1g.18gb+me:8,gpu:nvidia_h200_1g.18gb:8",
        ),
        # Slurm cuts the product at the hyphen: NVIDIA A100-SXM4-80GB.
        ("a100", ["7g.80gb"], "gpu:nvidia_a100_7g.80gb:8"),
    ],
)
def test_mig_devices_are_counted_by_their_names_and_found_by_slurmd(
    model: str, mig: list[str], declared: str
) -> None:
    hardware = machine(gpu={"model": model, "count": 8, "mig": mig})
    node = slurm.node_plan(hardware, cpu.plan(hardware), 0, detected=True)
    assert (node.gres, node.gres_lines, node.autodetect) == (declared, {}, "nvml")


def test_a_divided_class_has_its_line_the_plugin_and_every_type() -> None:
    def divide(wanted: dict[str, Any]) -> None:
        wanted["hardware"]["hgx"]["gpu"]["mig"] = ["3g.71gb", "2g.35gb"]

    cluster = planned(divide)
    files = {file.path: file.content.decode() for file in managed(cluster.nodes["head1"], None)}
    lines = [x for x in files["/etc/slurm/gres.conf"].splitlines() if x[:8] == "NodeName"]
    assert lines == ["NodeName=worker[1-4] AutoDetect=nvml"]
    types = "gres/gpu,gres/gpu:nvidia_h200_2g.35gb,gres/gpu:nvidia_h200_3g.71gb"
    assert f"AccountingStorageTRES={types}\n" in files["/etc/slurm/slurm.conf"]
    assert PLUGIN in cluster.nodes["worker1"].software.packages
    assert PLUGIN not in cluster.nodes["head1"].software.packages
    assert PLUGIN not in planned().nodes["worker1"].software.packages


def driven(change: Callable[[dict[str, Any]], object] = lambda wanted: None) -> ClusterPlan:
    """The example cluster with NVIDIA's stack."""

    def stack(wanted: dict[str, Any]) -> None:
        wanted.update(description())
        change(wanted)

    return planned(stack)


def gpu_lines(cluster: ClusterPlan) -> list[str]:
    files = {file.path: file.content.decode() for file in managed(cluster.nodes["head1"], None)}
    return [x for x in files["/etc/slurm/gres.conf"].splitlines() if x[:8] == "NodeName"]


def test_with_a_driver_slurmd_detects_the_gpus_and_the_plan_counts_them() -> None:
    cluster = driven()
    assert gpu_lines(cluster) == ["NodeName=worker[1-4] AutoDetect=nvml"]
    assert cluster.classes["hgx", "debian_13"].slurm.gres == "gpu:h200:8"
    assert PLUGIN in cluster.nodes["worker1"].software.packages
    assert PLUGIN not in cluster.nodes["head1"].software.packages


def without_a_driver(wanted: dict[str, Any]) -> None:
    del wanted["software"]["nvidia"], wanted["software"]["containers"]


def without_the_plugin(wanted: dict[str, Any]) -> None:
    """The archive of Debian 12 has none that installs."""
    wanted["os"]["release"] = "debian_12"
    del wanted["software"]["containers"], wanted["software"]["nvidia"]["container_toolkit"]


def with_other_files(wanted: dict[str, Any]) -> None:
    wanted["hardware"]["hgx"]["gpu"]["devices"] = "/dev/board[0-7]"


@pytest.mark.parametrize("change", [without_a_driver, without_the_plugin, with_other_files])
def test_gpus_that_slurmd_cannot_detect_are_listed(
    change: Callable[[dict[str, Any]], object],
) -> None:
    cluster = driven(change)
    assert [line.partition(" File=")[0] for line in gpu_lines(cluster)] == [
        "NodeName=worker[1-4] Name=gpu Type=h200"
    ] * 2
    assert PLUGIN not in cluster.nodes["worker1"].software.packages


def test_slurmd_starts_again_for_gpus_that_came_after_it() -> None:
    devices = tuple(f"/dev/nvidia{slot}" for slot in range(8))

    def read(cluster: ClusterPlan) -> tuple[str, ...]:
        (role,) = (role for role in cluster.roles if role.name == "slurm_worker")
        return role.units[0].reads(cluster.nodes["worker1"])

    assert {slurm.NVML_PLUGIN, *devices} <= {*read(driven())}
    # Listed ones are a file name for slurmd: it waits until they are there.
    assert not {slurm.NVML_PLUGIN, *devices} & {*read(planned())}


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("a100_40gb", "nvidia_a100-sxm4-40gb"),
        ("NVIDIA H100 PCIe", "h100_pcie"),
        ({"name": "NVIDIA X 2"}, "nvidia_x_2"),
    ],
)
def test_both_files_of_slurm_have_the_same_type(model: object, kind: str) -> None:
    """Also where gres.conf lists the files: without a driver in the description."""
    cluster = planned(lambda wanted: wanted["hardware"]["hgx"]["gpu"].update(model=model))
    assert cluster.classes["hgx", "debian_13"].slurm.gres == f"gpu:{kind}:8"
    assert [f"Type={kind} " in line for line in gpu_lines(cluster)] == [True, True]


@pytest.mark.parametrize("model", gpus.known())
def test_slurm_finds_the_type_in_the_name_that_slurmd_detects(model: str) -> None:
    """Slurm matches them as ``_find_type_in_gres_list`` of gres_gpu.c does."""
    hardware = machine(gpu={"model": model, "count": 1})
    (kind,) = slurm.node_plan(hardware, cpu.plan(hardware), 0, detected=True).gres_types
    detected = gpus.load(model).product_name.replace(" ", "_").lower()
    assert kind in detected
    assert kind in (model, detected)
