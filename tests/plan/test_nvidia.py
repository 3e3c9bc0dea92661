"""The NVIDIA software of a node: parts, packages, versions, units, and their order."""

from collections.abc import Callable
from typing import Any

import pytest

from lockstep.catalog import nvidia
from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan.nvidia import DRIVER_PARTS, NvidiaPlan
from lockstep.roles import declared as every_role
from lockstep.spec import load
from lockstep.spec.software import fits
from tests.plan.example import planned
from tests.spec.nvidia_example import description

Change = Callable[[dict[str, Any]], object]


def cluster(change: Change = lambda wanted: None) -> ClusterPlan:
    wanted = description()
    change(wanted)
    spec, problems = load(wanted, every_role())
    assert problems == []
    assert spec is not None
    return plan(spec)


def worker(change: Change = lambda wanted: None) -> NodePlan:
    return cluster(change).nodes["worker1"]


def stack(change: Change = lambda wanted: None) -> NvidiaPlan:
    chosen = worker(change).nvidia
    assert chosen is not None
    return chosen


def declared(**fields: object) -> Change:
    """Fields of the version set; None takes one away."""

    def change(wanted: dict[str, Any]) -> None:
        chosen = {**wanted["software"]["nvidia"], **fields}
        wanted["software"]["nvidia"] = {k: v for k, v in chosen.items() if v is not None}

    return change


def driver(version: str, **fields: object) -> Change:
    return declared(driver=version, fabric_manager=version, nscq=version, **fields)


def both(*changes: Change) -> Change:
    return lambda wanted: [change(wanted) for change in changes]


def gpu(**fields: object) -> Change:
    return lambda wanted: wanted["hardware"]["hgx"]["gpu"].update(fields)


def no_kernel(wanted: dict[str, Any]) -> None:
    wanted["hardware"]["hgx"].update(boot_loader="none", kernel_args=[], hugepages=[])


BARE = declared(
    **dict.fromkeys(("cuda", "fabric_manager", "nscq", "dcgm", "dcgm_exporter", "nccl", "gdrcopy"))
)


BARE_OF_NVLINK = both(gpu(nvswitch=False), BARE)


# -- parts


def test_a_node_gets_every_declared_part_that_its_class_can_use() -> None:
    assert tuple(stack().packages_of) == (
        *("driver", "modules_open", "cuda_toolkit", "fabric_manager", "nscq"),
        *("dcgm", "dcgm_exporter", "nccl", "gdrcopy", "container_toolkit"),
    )


def test_heads_and_classes_without_gpus_get_none() -> None:
    nodes = cluster().nodes
    assert nodes["head1"].nvidia is None
    assert nodes["head1"].gpu is None
    assert not set(nodes["head1"].software.packages) & set(stack().versions)
    assert cluster().classes["head", "debian_13"].nvidia is None


def test_without_a_version_set_no_driver_is_installed() -> None:
    node = planned().nodes["worker1"]
    assert node.nvidia is None
    assert "nvidia_driver" not in node.roles
    assert "gpu_settings" in node.roles
    assert node.software.held == ()


def test_parts_of_nvlink_follow_the_hardware_class() -> None:
    without = both(gpu(nvswitch=False), declared(fabric_manager=None, nscq=None))
    assert not {"fabric_manager", "nscq", "imex"} & set(stack(without).packages_of)
    between = stack(both(gpu(multi_node_nvlink=True), declared(imex="580.95.05")))
    assert {"fabric_manager", "nscq", "imex"} <= set(between.packages_of)


def test_a_class_without_nvswitches_gets_no_fabric_manager_that_another_class_needs() -> None:
    def change(wanted: dict[str, Any]) -> None:
        wanted["hardware"]["head"]["gpu"] = {"model": "l40s", "count": 1}

    chosen = cluster(change).classes["head", "debian_13"].nvidia
    assert chosen is not None
    assert not {"fabric_manager", "nscq"} & set(chosen.packages_of)
    assert chosen.driver.flavour == "open"


@pytest.mark.parametrize(("wanted", "part"), [("runtime", "runtime"), ("toolkit", "toolkit")])
def test_cuda_as_libraries_or_with_the_compiler(wanted: str, part: str) -> None:
    parts = stack(declared(cuda_parts=wanted)).packages_of
    assert [name for name in parts if name.startswith("cuda_")] == [f"cuda_{part}"]


# -- kernel modules


def test_no_modules_where_the_kernel_is_not_the_machines_own() -> None:
    chosen = stack(both(no_kernel, declared(gdrcopy=None)))
    assert chosen.driver.flavour is None
    assert not [name for name in chosen.versions if name.endswith("-dkms")]
    assert {"libcuda1", "libnvidia-ml1"} <= set(chosen.versions)


@pytest.mark.parametrize(
    ("model", "said", "modules", "package"),
    [
        ("h200", None, "open", "nvidia-kernel-open-dkms"),
        ("h200", "proprietary", "proprietary", "nvidia-kernel-dkms"),
        ("v100", None, "proprietary", "nvidia-kernel-dkms"),
    ],
)
def test_modules_are_open_where_the_architecture_has_them(
    model: str, said: str | None, modules: str, package: str
) -> None:
    chosen = stack(
        both(
            gpu(model=model, nvswitch=False),
            declared(fabric_manager=None, nscq=None, modules=said),
        )
    )
    assert chosen.driver.flavour == modules
    assert [name for name in chosen.versions if name.startswith("nvidia-kernel")] == [package]


def nics(**fields: object) -> Change:
    return lambda wanted: wanted["hardware"]["hgx"].update(nics={"count": 8, **fields})


DRIVER = ("nvidia", "nvidia-uvm")


@pytest.mark.parametrize(
    ("change", "loaded"),
    [
        (declared(gdrcopy=None), DRIVER),
        # DMA-BUF needs no module, whatever the driver's modules are.
        (both(declared(gdrcopy=None), nics(rdma="infiniband")), DRIVER),
        (both(declared(gdrcopy=None, modules="proprietary"), nics(rdma="infiniband")), DRIVER),
        (
            both(declared(gdrcopy=None), nics(rdma="infiniband", gpudirect="peermem")),
            (*DRIVER, "nvidia-peermem"),
        ),
        (declared(nvidia_fs="2.28.4"), (*DRIVER, "gdrdrv", "nvidia-fs")),
        (both(no_kernel, declared(gdrcopy=None)), ()),
    ],
)
def test_modules_for_direct_access_are_loaded_where_they_are_declared(
    change: Change, loaded: tuple[str, ...]
) -> None:
    assert stack(change).load_modules == loaded


def test_storage_gets_its_kernel_module_and_the_tools_of_each_cuda_release() -> None:
    versions = stack(declared(nvidia_fs="2.28.4")).versions
    shown = {name: one for name, one in versions.items() if "nvidia-fs" in name or "gds" in name}
    assert shown == {
        "nvidia-fs": "2.28.4-*",
        "nvidia-fs-dkms": "2.28.4-*",
        "nvidia-gds-12-8": "12.8.*",
        "nvidia-gds-13-0": "13.0.*",
    }


def test_debian_has_the_kernel_module_of_storage_and_no_tools() -> None:
    packages = dict(nvidia.PACKAGINGS["debian"].packages("nvidia_fs", "2.19.7", "550.163.01"))
    assert packages == {"nvidia-fs-dkms": "2.19.7~*"}
    assert fits("2.19.7~12.4.1-2", packages["nvidia-fs-dkms"])
    assert "nvidia_fs" in nvidia.PACKAGINGS["debian"].from_archive


# -- packages and versions


def test_packages_of_the_whole_set_with_their_versions() -> None:
    assert dict(stack().versions) == {
        "libcuda1": "580.95.05-*",
        "libnvidia-ml1": "580.95.05-*",
        "nvidia-driver-cuda": "580.95.05-*",
        "nvidia-persistenced": "580.95.05-*",
        "nvidia-kernel-open-dkms": "580.95.05-*",
        "cuda-toolkit-12-8": "12.8.*",
        "cuda-toolkit-13-0": "13.0.*",
        "nvidia-fabricmanager": "580.95.05-*",
        "libnvidia-nscq": "580.95.05-*",
        "datacenter-gpu-manager-4-core": "1:4.4.1-*",
        "datacenter-gpu-manager-4-cuda13": "1:4.4.1-*",
        "datacenter-gpu-manager-exporter": "4.5.2-*",
        "libnccl2": "2.27.7-*",
        "gdrdrv-dkms": "2.5.1-*",
        "libgdrapi": "2.5.1-*",
        "libnvidia-container-tools": "1.18.0-*",
        "libnvidia-container1": "1.18.0-*",
        "nvidia-container-toolkit": "1.18.0-*",
        "nvidia-container-toolkit-base": "1.18.0-*",
    }


@pytest.mark.parametrize(
    ("version", "suffix"), [("550.163.01", "-550"), ("575.57.08", "-575"), ("580.95.05", "")]
)
def test_packages_beside_the_driver_carry_the_branch_before_580(version: str, suffix: str) -> None:
    chosen = stack(
        both(
            gpu(multi_node_nvlink=True),
            driver(version, imex=version, cuda=["12.4"]),
        )
    )
    names = ("nvidia-fabricmanager", "libnvidia-nscq", "nvidia-imex")
    assert {f"{name}{suffix}" for name in names} <= set(chosen.versions)


@pytest.mark.parametrize(
    ("version", "major"), [("550.163.01", "12"), ("575.57.08", "12"), ("580.95.05", "13")]
)
def test_dcgm_is_that_of_the_newest_cuda_the_driver_runs(version: str, major: str) -> None:
    """Not that of the declared releases: a node may have CUDA 12 and a driver of CUDA 13."""
    chosen = stack(driver(version, cuda=["12.4"]))
    of_dcgm = [name for name in chosen.versions if name.startswith("datacenter-gpu-manager-4-cuda")]
    assert of_dcgm == [f"datacenter-gpu-manager-4-cuda{major}"]


def test_cuda_has_one_package_per_release() -> None:
    chosen = stack(declared(cuda=["12.4", "12.8", "13.0"], cuda_parts="runtime"))
    of_cuda = {k: v for k, v in chosen.versions.items() if k.startswith("cuda-")}
    assert of_cuda == {
        "cuda-libraries-12-4": "12.4.*",
        "cuda-libraries-12-8": "12.8.*",
        "cuda-libraries-13-0": "13.0.*",
    }


@pytest.mark.parametrize(
    ("version", "release", "package"),
    [("550.163.01", "12.4", "libcudart12"), ("535.261.03", "11.8", "libcudart11.0")],
)
def test_debians_own_packages(version: str, release: str, package: str) -> None:
    chosen = stack(
        both(
            BARE_OF_NVLINK,
            declared(packaging="debian", driver=version, cuda=[release], cuda_parts="runtime"),
        )
    )
    series = version.partition(".")[0]
    versions = chosen.versions
    assert versions["nvidia-persistenced"] == f"{series}.*"
    assert {k: v for k, v in versions.items() if "cudart" in k} == {package: f"{release}.*"}
    of_driver = ("libcuda1", "libnvidia-ml1", "nvidia-smi", "nvidia-open-kernel-dkms")
    assert {versions[name] for name in of_driver} == {f"{version}-*"}
    assert not [name for name in versions if name.startswith(("cuda-", "nvidia-driver"))]


def test_a_single_lock_wins_over_the_set() -> None:
    node = worker(
        lambda wanted: wanted["software"].update(versions={"libnccl2": "2.27.3-1+cuda12.8"})
    )
    assert node.software.versions["libnccl2"] == "2.27.3-1+cuda12.8"
    assert node.software.versions["libcuda1"] == "580.95.05-*"


def test_the_whole_stack_is_held_and_nothing_else() -> None:
    node = worker()
    assert set(node.software.held) == set(stack().versions)
    assert not {"slurmd", "containerd"} & set(node.software.held)
    assert cluster().nodes["head1"].software.held == ()


def test_every_package_of_the_stack_is_one_of_the_nodes_packages() -> None:
    node = worker()
    assert set(stack().versions) <= set(node.software.packages)
    assert {"containerd", "runc"} <= set(node.software.packages)
    assert list(node.software.packages) == sorted(node.software.packages)


def test_driver_packages_are_those_that_change_together() -> None:
    assert tuple(stack().driver.packages) == (
        *("libcuda1", "libnvidia-ml1", "nvidia-driver-cuda", "nvidia-persistenced"),
        *("nvidia-kernel-open-dkms", "nvidia-fabricmanager", "libnvidia-nscq"),
    )
    of_one_version = {stack().versions[name] for name in stack().driver.packages}
    assert of_one_version == {"580.95.05-*"}
    assert set(DRIVER_PARTS) & set(stack(BARE_OF_NVLINK).packages_of) == {"driver", "modules_open"}


# -- units and roles


def test_units_of_the_whole_stack() -> None:
    assert {
        *("nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-dcgm.service"),
        *("nvidia-dcgm-exporter.service", "containerd.service"),
    } <= set(worker().system.units)
    assert not [unit for unit in cluster().nodes["head1"].system.units if "nvidia" in unit]


def test_a_unit_runs_only_where_its_part_is() -> None:
    units = worker(BARE_OF_NVLINK).system.units
    assert "nvidia-persistenced.service" in units
    assert not {
        *("nvidia-fabricmanager.service", "nvidia-imex.service", "nvidia-dcgm.service"),
        "nvidia-dcgm-exporter.service",
    } & set(units)
    between = both(gpu(multi_node_nvlink=True), declared(imex="580.95.05"))
    assert "nvidia-imex.service" in worker(between).system.units


@pytest.mark.parametrize(
    ("engine", "units"),
    [
        ("containerd", {"containerd.service"}),
        ("docker", {"containerd.service", "docker.service"}),
        ("podman", set()),
    ],
)
def test_container_engines_and_their_daemons(engine: str, units: set[str]) -> None:
    node = worker(lambda wanted: wanted["software"].update(containers={"engines": [engine]}))
    assert "container_runtime" in node.roles
    assert {u for u in node.system.units if u in ("containerd.service", "docker.service")} == units
    # Jobs begin in them: they reach the jobs' CPUs, as slurmd does.
    assert set(node.system.job_parents) == {"slurmd.service", *units}


@pytest.mark.parametrize(
    ("change", "roles"),
    [
        (
            lambda wanted: None,
            (
                *("nvidia_driver", "cuda", "nvidia_fabric_manager"),
                *("dcgm", "dcgm_exporter", "gpu_settings"),
            ),
        ),
        (
            both(gpu(multi_node_nvlink=True), declared(imex="580.95.05")),
            (
                *("nvidia_driver", "cuda", "nvidia_fabric_manager", "nvidia_imex"),
                *("dcgm", "dcgm_exporter", "gpu_settings"),
            ),
        ),
        (BARE_OF_NVLINK, ("nvidia_driver", "gpu_settings")),
    ],
    ids=["NVSwitches", "NVLink between nodes", "neither"],
)
def test_what_a_worker_does_for_its_gpus(change: Change, roles: tuple[str, ...]) -> None:
    done = worker(change).roles
    known = {role.name for role in every_role() if "nvidia" in role.name} | {
        *("cuda", "dcgm", "dcgm_exporter", "gpu_settings")
    }
    assert tuple(name for name in done if name in known) == roles


def test_units_without_their_hardware_must_not_run() -> None:
    assert worker().system.forbidden_units == ("nvidia-imex.service",)
    assert worker(BARE_OF_NVLINK).system.forbidden_units == (
        "nvidia-fabricmanager.service",
        "nvidia-imex.service",
    )
    assert cluster().nodes["head1"].system.forbidden_units == ()


def test_the_persistence_daemon_runs_only_where_persistence_is_wanted() -> None:
    node = worker(gpu(persistence=False))
    assert "nvidia-persistenced.service" in node.system.forbidden_units
    assert "nvidia-persistenced.service" not in node.system.units


# -- flavours


@pytest.mark.parametrize(
    ("packaging", "modules", "replaced"),
    [
        ("nvidia", "open", ("nvidia-kernel-dkms",)),
        ("nvidia", "proprietary", ("nvidia-kernel-open-dkms",)),
        ("debian", "open", ("nvidia-kernel-dkms", "nvidia-kernel-support")),
        ("debian", "proprietary", ("nvidia-open-kernel-dkms", "nvidia-open-kernel-support")),
    ],
)
def test_the_packages_of_the_other_flavour_are_replaced(
    packaging: str, modules: str, replaced: tuple[str, ...]
) -> None:
    of = both(BARE_OF_NVLINK, declared(packaging=packaging, modules=modules))
    planned_driver = worker(of).software.driver
    assert planned_driver is not None
    assert (planned_driver.flavour, planned_driver.replaced) == (modules, replaced)
    assert worker(of).software.headers == "linux-headers-{release}"
