"""Apptainer, enroot and pyxis: their nodes, their versions, and the Slurm of pyxis."""

from typing import Any

import pytest

from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan
from lockstep.roles import declared
from lockstep.spec import load
from tests.spec.nvidia_example import description

EVERY = {"apptainer": "1.5.3", "enroot": "4.1.2", "pyxis": "0.24.0"}
PACKAGES = {
    "apptainer": "1.5.3*",
    "enroot": "4.1.2-*",
    "enroot+caps": "4.1.2-*",
    "nvslurm-plugin-pyxis": "0.24.0-*",
}


def planned(containers: dict[str, Any], **versions: str) -> ClusterPlan:
    wanted = description()
    wanted["software"]["containers"] = containers
    wanted["software"]["versions"] |= versions
    cluster, problems = load(wanted, declared())
    assert cluster is not None, problems
    return plan(cluster)


def of_jobs(cluster: ClusterPlan, node: str) -> dict[str, str]:
    chosen = cluster.nodes[node]
    return {
        name: chosen.software.versions[name]
        for name in PACKAGES
        if name in chosen.software.packages
    }


def test_a_worker_gets_all_of_it_pinned_and_held() -> None:
    worker = planned(EVERY).nodes["worker1"]
    assert of_jobs(planned(EVERY), "worker1") == PACKAGES
    assert set(PACKAGES) <= set(worker.software.held)
    assert worker.software.pins.items() >= PACKAGES.items()
    assert [name for name in worker.roles if name in EVERY] == ["enroot", "pyxis"]


def test_where_jobs_are_started_from_srun_has_the_plugin_too() -> None:
    cluster = planned(EVERY)
    assert set(of_jobs(cluster, "head1")) == {"enroot", "enroot+caps", "nvslurm-plugin-pyxis"}
    assert cluster.nodes["head1"].software.held == ("enroot", "enroot+caps", "nvslurm-plugin-pyxis")
    assert of_jobs(cluster, "head2") == {}
    assert of_jobs(planned({"enroot": "4.1.2"}), "head1") == {}


def test_enroot_alone_brings_the_toolkit() -> None:
    stack = planned({"enroot": "4.1.2"}).nodes["worker1"].nvidia
    assert stack is not None
    assert stack.has("container_toolkit")


@pytest.mark.parametrize(
    ("slurmd", "series"),
    [("24.11.5-4", "24.11"), ("1:25.05.2-1", "25.05"), ("22.05.8-4+deb12u3", "22.05")],
)
def test_the_locked_slurm_says_which_plugin_fits(slurmd: str, series: str) -> None:
    assert planned(EVERY, slurmd=slurmd).nodes["worker1"].job_containers.slurm_series == series


@pytest.mark.parametrize(
    ("slurmd", "configless"), [("24.11.5-4", True), ("23.11.4-1", False), (None, False)]
)
def test_the_locked_slurm_says_whether_workers_fetch_their_files(
    slurmd: str | None, configless: bool
) -> None:
    """Debian 12 has 22.05, which cannot do so over IPv6; a site may lock a build of its own."""
    wanted = description()
    wanted["os"]["release"] = "debian_12"
    wanted["software"]["versions"] = {"slurmd": slurmd} if slurmd else {}
    wanted["software"]["containers"] = EVERY
    cluster, problems = load(wanted, declared())
    assert cluster is not None, problems
    found = plan(cluster)
    assert (found.slurm_series >= (24, 11)) is found.configless is configless


def test_without_a_lock_it_is_the_slurm_of_the_release() -> None:
    wanted = description()
    wanted["os"]["release"] = "debian_12"
    wanted["software"] |= {"containers": EVERY, "versions": {}}
    cluster, problems = load(wanted, declared())
    assert cluster is not None, problems
    assert plan(cluster).nodes["worker1"].job_containers.slurm_series == "22.05"
