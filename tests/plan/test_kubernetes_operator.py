"""The values of NVIDIA's GPU operator: the plan's, under keys that the operator's chart knows.

``gpu_operator/*.json`` have the keys of a version of the chart, with the kind of each default:
those of values.yaml, and those that only the chart's templates read ("any"). Below a "map" or in a
"list", the chart knows no keys: what is there belongs to Kubernetes or to another program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lockstep.plan import NodePlan
from lockstep.plan.kubernetes_operator import (
    COUNTERS,
    MIG_LABEL,
    mig_layout,
    mig_strategy,
    operator_labels,
    values,
)
from lockstep.spec.hardware import Gpu
from tests.plan.test_kubernetes import planned, text_of

CHARTS = sorted((Path(__file__).parent / "gpu_operator").glob("*.json"))
EXPORTER_DROP_IN = "/etc/systemd/system/nvidia-dcgm-exporter.service.d/50-lockstep.conf"
KINDS = {bool: "bool", int: "int", str: "str", list: "list", dict: "map"}
LAYOUT = ["3g.71gb", "1g.18gb", "1g.18gb"]


def head(change: Callable[[dict[str, Any]], object] = lambda wanted: None) -> NodePlan:
    return planned(change=change).nodes["head1"]


def divided(wanted: dict[str, Any]) -> None:
    wanted["hardware"]["hgx"]["gpu"]["mig"] = LAYOUT


def with_dcgm(wanted: dict[str, Any]) -> None:
    wanted["software"]["nvidia"]["dcgm"] = "4.4.1"


def with_exporter(wanted: dict[str, Any]) -> None:
    with_dcgm(wanted)
    wanted["software"]["nvidia"]["dcgm_exporter"] = "4.4.1"


def with_whole_gpus_beside(wanted: dict[str, Any]) -> None:
    """Divide worker2 alone, which gets a hardware class of its own."""
    wanted["hardware"]["parts"] = json.loads(json.dumps(wanted["hardware"]["hgx"]))
    wanted["hardware"]["parts"]["gpu"]["mig"] = LAYOUT
    first, workers = wanted["nodes"]
    parts = {
        **workers,
        "name": "worker2",
        "hardware": "parts",
        "management": "fd00:1::102",
        "pods": "fd00:2:0:102::/64",
    }
    wanted["nodes"] = [first, {**workers, "name": "worker1"}, parts]


def unknown(found: dict[str, Any], known: Any, path: str = "") -> Iterator[str]:
    """Yield the keys that the chart does not know, and those whose values are of another kind."""
    for key, value in found.items():
        here = f"{path}{key}"
        if key not in known:
            yield f"{here}: the chart has no such key"
        elif isinstance(value, dict) and isinstance(known[key], dict):
            yield from unknown(value, known[key], f"{here}.")
        elif isinstance(known[key], dict) or known[key] not in (KINDS[type(value)], "any"):
            yield f"{here}: {value!r} is no {known[key]}"


@pytest.mark.parametrize("chart", CHARTS, ids=lambda one: one.stem)
@pytest.mark.parametrize("change", [lambda wanted: None, divided, with_dcgm, with_exporter])
def test_the_chart_knows_every_key(chart: Path, change: Callable[[dict[str, Any]], object]) -> None:
    known = json.loads(chart.read_text(encoding="utf-8"))
    assert known["version"] == chart.stem
    assert list(unknown(values(head(change)), known["keys"])) == []


def test_the_host_keeps_driver_and_toolkit() -> None:
    found = values(head())
    assert found["driver"] == {"enabled": False}
    assert found["toolkit"] == {"enabled": False}
    assert found["cdi"] == {"enabled": True}


def test_without_layouts_nothing_manages_mig() -> None:
    found = values(head())
    assert found["mig"] == {"strategy": "none"}
    assert found["migManager"] == {"enabled": False}
    assert operator_labels(planned().nodes["worker1"]) == {}


def test_the_layouts_are_those_of_the_hardware_classes() -> None:
    cluster = planned(change=with_whole_gpus_beside)
    found = values(cluster.nodes["head1"])
    assert found["mig"] == {"strategy": "mixed"}
    # As mig-parted reads it: the file is YAML.
    layouts = yaml.safe_load(found["migManager"]["config"]["data"]["config.yaml"])
    assert layouts == {
        "version": "v1",
        "mig-configs": {
            "all-disabled": [{"devices": "all", "mig-enabled": False}],
            "parts-mig": [
                {
                    "devices": "all",
                    "mig-enabled": True,
                    "mig-devices": {"1g.18gb": 2, "3g.71gb": 1},
                }
            ],
        },
    }
    labels = {name: operator_labels(node) for name, node in cluster.nodes.items()}
    assert labels == {
        "head1": {},
        "worker1": {MIG_LABEL: "all-disabled"},
        "worker2": {MIG_LABEL: "parts-mig"},
    }


def test_the_operator_removes_no_mig_devices_of_a_node_without_a_label() -> None:
    """With any other default, it would label such a node "all-disabled"."""
    assert values(head(divided))["migManager"]["config"]["default"] == ""


@pytest.mark.parametrize("name", ["a" * 60, "a" * 63, "a" * 62 + "b", "hgx-"])
def test_the_name_of_a_layout_can_be_a_label(name: str) -> None:
    gpu = Gpu(count=8, mig=("1g.18gb",))
    layout = mig_layout(name, gpu)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?", layout)
    assert layout != mig_layout("a" * 61, gpu)


def test_a_declared_strategy_goes_first() -> None:
    assert mig_strategy(head(divided)) == "mixed"
    assert values(head(divided), "single")["mig"] == {"strategy": "single"}


def environment(of: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in of["env"]}


def test_the_exporter_has_our_counters_and_names_the_pods_of_gpus() -> None:
    found = values(head())["dcgmExporter"]
    assert found["enabled"] is True
    assert environment(found)["DCGM_EXPORTER_KUBERNETES"] == "true"
    assert "DCGM_REMOTE_HOSTENGINE_INFO" not in environment(found)
    assert found["hostNetwork"] is False
    assert found["config"]["create"] is True
    # A comma would end a column, so no text may have one.
    rows = [line.split(", ") for line in found["config"]["data"].splitlines()]
    assert [tuple(row) for row in rows] == list(COUNTERS)
    assert {kind for _, kind, _ in COUNTERS} == {"gauge", "counter", "label"}
    assert len({name for name, _, _ in COUNTERS}) == len(COUNTERS)


def test_the_exporter_uses_the_engine_of_the_host() -> None:
    found = values(head(with_dcgm))
    assert found["dcgm"] == {"enabled": False}
    assert environment(found["dcgmExporter"])["DCGM_REMOTE_HOSTENGINE_INFO"] == "localhost:5555"
    assert found["dcgmExporter"]["hostNetwork"] is True


def test_gpus_have_one_exporter_which_names_their_pods() -> None:
    cluster = planned(change=with_exporter)
    assert values(cluster.nodes["head1"])["dcgmExporter"] == {"enabled": False}
    (line,) = (
        one
        for one in text_of(cluster, "worker1", EXPORTER_DROP_IN).splitlines()
        if one.startswith("ExecStart=/")
    )
    assert line.endswith(" -k")
