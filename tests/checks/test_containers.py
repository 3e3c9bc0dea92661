"""Containers compared with their node: one drift is one finding, and unread is not ok."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.checks.context import Context
from lockstep.fleet.request import request
from lockstep.report import Status
from tests.checks import recorded
from tests.checks.recorded import REMOVED
from tests.checks.test_one_cause import NODE, Change, changed, found, the_one

DOES_NOT_START = {"unread": "docker: exit 125: unresolvable CDI devices nvidia.com/gpu=all"}


def test_a_container_that_does_not_start_is_one_finding() -> None:
    one = the_one(("containers", ("docker",), DOES_NOT_START))
    assert (one.rule, one.device, one.status) == (
        "container.devices",
        "docker",
        Status.UNKNOWN.value,
    )
    assert "container.shm (docker)" in one.detail


@pytest.mark.parametrize("reading", ["device.files", "driver.boards", "driver.instance_files"])
def test_what_the_node_itself_has_must_be_known(reading: str) -> None:
    many = found((reading, (), REMOVED))
    assert many
    assert {one.status for one in many} == {Status.UNKNOWN.value}


def test_a_slice_without_its_capability_file_is_named() -> None:
    cap = "/dev/nvidia-caps/nvidia-cap12"
    docker: Change = ("containers", ("docker", "devices", cap), "236:12")
    one = the_one(("driver.instance_files", (), [cap]), docker)
    assert (one.rule, one.device, one.found) == ("container.capabilities", "podman", f"lacks {cap}")


def test_a_number_that_no_gpu_has_is_shown() -> None:
    one = the_one(("containers", ("docker", "devices", "/dev/nvidia7"), "234:7"))
    assert one.rule == "container.uuids"
    assert one.found.endswith("has /dev/nvidia7 234:7, which belongs to no GPU of the node")


def test_a_gpu_that_the_node_lost_is_not_the_containers_matter() -> None:
    start = recorded.consistent()
    for engine in ("docker", "podman"):
        start = changed(("containers", (engine, "devices", "/dev/nvidia7"), REMOVED), start=start)
    one = the_one(("gpu.count", (), 7), start=start)
    assert one.rule == "gpu.count"
    assert "container.devices (docker)" in one.detail


def shared_kernel(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["boot_loader"] = "none"
    description["hardware"]["hgx-h200"].update(kernel={}, housekeeping_cpus="", hugepages=[])


def test_memlock_is_compared_with_the_peers_where_it_belongs_to_the_machine_below() -> None:
    memlock: Change = ("containers", ("docker", "memlock"), "8192")
    assert the_one(memlock).reference == "spec"
    start = recorded.clustered(shared_kernel)
    assert the_one(memlock, start=start).reference.startswith("peers")


def no_rdma(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["nics"] = {"count": 2, "interfaces": "fabric[0-1]"}


def test_without_rdma_no_container_is_given_its_devices() -> None:
    worker = recorded.clustered(no_rdma).plan.nodes[NODE]
    assert request(worker, containers=True).container_devices == ()


def every_engine(description: dict[str, Any]) -> None:
    description["software"]["containers"]["engines"] = ["docker", "podman", "containerd"]


def test_containerd_is_asked_as_well() -> None:
    start: Context = recorded.clustered(every_engine)
    assert recorded.report(start).findings == []
    lacks: Change = ("containers", ("containerd", "devices", "/dev/nvidia3"), REMOVED)
    assert the_one(lacks, start=start).device == "containerd"
