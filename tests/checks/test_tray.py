"""Two GB200 racks of inventories/gb200.py, whose records come from one recorded tray."""

from __future__ import annotations

import copy
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest

from lockstep.checks.context import Context
from lockstep.probe.record import Record
from lockstep.report import ExitStatus, Finding
from tests.checks import recorded, tray
from tests.checks.healthy_nodes import infiniband
from tests.golden.write import plan_of

GPUS = ("gpu0", "gpu1", "gpu2", "gpu3")
SICK = "rack1-tray07"
NODES_CONFIG = "/etc/nvidia-imex/nodes_config.cfg"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The readings of the recorded tray."""
    with pytest.MonkeyPatch.context() as patch:
        return tray.read(tmp_path_factory.mktemp("tray"), patch)


@pytest.fixture(scope="module")
def racks(seen: dict[str, Any]) -> Context:
    """All trays as the recorded one, each with its own names, addresses and serial numbers."""
    plan = plan_of("gb200")
    records = {name: recorded.raw_record(node) for name, node in plan.nodes.items()}
    for number, (name, raw) in enumerate(records.items()):
        raw["readings"]["os.id"] = {"value": "ubuntu"}
        raw["readings"]["os.version_id"] = {"value": "24.04"}
        if plan.nodes[name].is_worker:
            raw["readings"] |= own(seen, number, plan.nodes[name].node.nvlink_domain)
            kernel = seen["kernel.release"]
            raw["readings"] |= {"kernel.newest": kernel, "kernel.next": kernel}
            adapters = infiniband([f"mlx5_{rail}" for rail in range(4)])
            raw["readings"] |= {one: {"value": value} for one, value in adapters.items()}
            raw["readings"]["driver.module_next"]["value"]["kernel"] = kernel["value"]
    return recorded.context(plan, records)


def own(seen: dict[str, Any], number: int, domain: str) -> dict[str, Any]:
    """Return the readings of one tray: the recorded ones, and what no two trays share."""
    readings = copy.deepcopy(seen)
    uuids = {gpu: f"GPU-{number:08}-0000-0000-0000-{i:012}" for i, gpu in enumerate(GPUS)}
    values = {
        "gpu.uuid": uuids,
        "gpu.serial": {gpu: f"165{number:06}{i // 2:04}" for i, gpu in enumerate(GPUS)},
        "gpu.fabric.cluster": dict.fromkeys(GPUS, str(uuid5(NAMESPACE_OID, domain))),
        "driver.boards": {f"195:{i}": uuid for i, uuid in enumerate(uuids.values())},
    }
    return readings | {name: {"value": value} for name, value in values.items()}


def found(cluster: Context) -> list[Finding]:
    return list(recorded.report(cluster))


def test_the_recorded_tray_is_read_as_it_is(seen: dict[str, Any]) -> None:
    value = {name: entry.get("value") for name, entry in seen.items()}
    assert value["cpu.online"] == "0-143"
    assert (value["numa.cpus"]["1"], value["numa.cpus"]["33"]) == ("72-143", "")
    assert value["kernel.page_size"] == "64k"
    assert value["hugepages"]["512M"]["0"] == 32
    assert value["hugepages"]["16G"].keys() == value["numa.cpus"].keys()
    assert value["gpu.name"] == dict.fromkeys(GPUS, "NVIDIA GB200")
    assert value["gpu.driver_version"] == dict.fromkeys(GPUS, "580.173.02")
    assert value["gpu.vbios"] == dict.fromkeys(GPUS, "97.00.B9.00.69")
    assert value["gpu.fabric.clique"] == dict.fromkeys(GPUS, "2")


def test_healthy_racks_are_consistent(racks: Context) -> None:
    assert len(racks.plan.nodes) == 37
    report = recorded.report(racks)
    assert [(one.rule, one.node, one.device, one.found) for one in report] == []
    assert report.exit_status is ExitStatus.CONSISTENT


def everywhere(value: Any) -> dict[str, Any]:
    return dict.fromkeys(GPUS, value)


def missing_tray(racks: Context) -> Context:
    """A list of IMEX's nodes without one of them: the file differs from the plan."""
    return recorded.mutated(racks, SICK, "files", (NODES_CONFIG, "sha256"), "0" * 64)


def other_kernel(racks: Context) -> Context:
    """The kernel with pages of 4 KiB, which has other huge pages."""
    pages = racks.views[SICK].items("hugepages")
    numa = pages["512M"]
    assert isinstance(numa, dict)
    changes: dict[str, Any] = {
        "kernel.page_size": "4k",
        "kernel.release": "6.8.0-149-generic",
        "kernel.newest": "6.8.0-149-generic",
        "hugepages": {size: dict.fromkeys(numa, 0) for size in ("64K", "2M", "32M", "1G")},
        "hugepages.mounts": {},
    }
    for reading, value in changes.items():
        racks = recorded.mutated(racks, SICK, reading, (), value)
    return racks


def one_gpu_less(racks: Context) -> Context:
    """The last GPU fell off the bus: no program lists it."""
    record = racks.reading[SICK]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    for name, entry in raw["readings"].items():
        value = entry.get("value")
        if name.startswith("gpu.") and isinstance(value, dict) and "gpu0" in value:
            value.pop("gpu3", None)
    raw["readings"]["gpu.count"] = {"value": 3}
    return recorded.with_reading(racks, {**racks.reading, SICK: recorded.parsed(raw)})


@pytest.mark.parametrize(
    ("fault", "rule", "device", "text"),
    [
        pytest.param(
            lambda racks: recorded.mutated(racks, SICK, "gpu.fabric.clique", (), everywhere("3")),
            *("gpu.nvlink_domain", "gpu[0-3]", "clique 3"),
            id="another clique",
        ),
        pytest.param(
            lambda racks: recorded.mutated(
                racks,
                SICK,
                "gpu.fabric.cluster",
                (),
                racks.views["rack2-tray01"].items("gpu.fabric.cluster"),
            ),
            *("gpu.nvlink_domain", "gpu[0-3]", str(uuid5(NAMESPACE_OID, "rack2"))),
            id="cabled to the other rack",
        ),
        pytest.param(
            missing_tray, "file.content", NODES_CONFIG, "", id="a tray is missing in IMEX's list"
        ),
        pytest.param(other_kernel, "kernel.page_size", "", "pages of 4k", id="pages of 4 KiB"),
        pytest.param(
            lambda racks: recorded.mutated(
                racks, SICK, "gpu.vbios", (), everywhere("97.00.A1.00.01")
            ),
            *("gpu.vbios", "gpu[0-3]", "97.00.A1.00.01"),
            id="another firmware",
        ),
        pytest.param(one_gpu_less, "gpu.count", "", "3 GPUs", id="a GPU is missing"),
        pytest.param(
            lambda racks: recorded.mutated(
                racks, SICK, "gpu.nvlink.links", ("gpu2", "7"), "<inactive>"
            ),
            *("gpu.nvlink", "gpu2", "1 x <inactive>"),
            id="an NVLink is down",
        ),
    ],
)
def test_a_fault_of_one_tray_is_one_finding_there(
    racks: Context, fault: Any, rule: str, device: str, text: str
) -> None:
    one = recorded.only(found(fault(racks)))
    assert (one.rule, one.node, one.device) == (rule, SICK, device)
    assert text in one.found
