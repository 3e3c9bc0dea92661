"""GPU models that only the description knows, and GPUs of other vendors."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.checks.context import Context
from lockstep.probe.record import Record
from tests.checks import recorded

LACKS = "not supported"
OWN = {"name": "NVIDIA H200"}
"""A model of which the description has only the name; the records are of a real H200."""


def with_model(model: object) -> Context:
    return recorded.clustered(
        lambda wanted: wanted["hardware"]["hgx-h200"]["gpu"].update(model=model)
    )


def everywhere(start: Context, reading: str, gpu: str, value: Any) -> Context:
    """Change one GPU of each worker alike."""
    for node, record in start.reading.items():
        if isinstance(record, Record) and node.startswith("worker"):
            start = recorded.mutated(start, node, reading, (gpu,), value)
    return start


@pytest.mark.parametrize("model", [OWN, "NVIDIA H200"])
def test_a_healthy_cluster_of_an_own_model_has_no_finding(model: object) -> None:
    assert recorded.report(with_model(model)).findings == []


@pytest.mark.parametrize(
    ("rule", "reading", "value", "reference"),
    [
        ("gpu.name", "gpu.name", "NVIDIA H100 80GB HBM3", "spec"),
        ("gpu.memory", "gpu.memory.total_mib", 81559, "peers"),
        ("gpu.power_default", "gpu.power.default_w", 500.0, "peers"),
        ("gpu.power_range", "gpu.power.max_w", 500.0, "peers"),
        ("gpu.power_limit", "gpu.power.enforced_w", 500.0, "device"),
        ("gpu.nvlink", "gpu.nvlink.links", {"0": "26.562 GB/s"}, "peers"),
        ("gpu.mig", "gpu.mig.current", "Enabled", "spec"),
    ],
)
def test_a_gpu_that_differs_is_found_without_the_models_values(
    rule: str, reading: str, value: Any, reference: str
) -> None:
    changed = recorded.mutated(with_model(OWN), "worker3", reading, ("gpu2",), value)
    found = [one for one in recorded.report(changed).findings if one.rule == rule]
    one = recorded.only(found)
    assert (one.node, one.device) == ("worker3", "gpu2")
    assert one.reference.partition(":")[0] == reference


def test_a_declared_value_of_an_own_model_is_expected_of_all_gpus() -> None:
    context = with_model({**OWN, "memory_mib": 81559})
    found = recorded.report(context).findings
    assert len(found) == 8
    for one in found:
        assert (one.rule, one.device, one.expected) == ("gpu.memory", "gpu[0-7]", "81559 MiB")


@pytest.mark.parametrize("rule", ["gpu.fabric", "gpu.mig", "gpu.row_remap"])
def test_what_an_own_model_may_lack_is_no_finding(rule: str) -> None:
    readings = {
        "gpu.fabric": ("gpu.fabric.state", "gpu.fabric.status"),
        "gpu.mig": ("gpu.mig.current", "gpu.mig.pending"),
        "gpu.row_remap": ("gpu.remapped.pending", "gpu.remapped.failure"),
    }[rule]

    def lacking(model: object) -> list[str]:
        context = with_model(model)
        for reading in readings:
            context = everywhere(context, reading, "gpu2", LACKS)
        return [one.rule for one in recorded.report(context, rule).findings]

    assert lacking(OWN) == []
    assert set(lacking("h200")) == {rule}


def of_amd(wanted: dict[str, Any]) -> None:
    wanted["hardware"]["hgx-h200"]["gpu"] = {"vendor": "amd", "count": 8}
    del wanted["software"]["nvidia"]
    wanted["software"]["containers"] = {}


def test_a_cluster_with_gpus_of_amd_is_checked_and_the_report_says_what_is_left_out() -> None:
    context = recorded.clustered(of_amd)
    report = recorded.report(context)
    note = (
        "hardware class hgx-h200: Lockstep does not set up or check its 8 AMD GPUs, and does not "
        "declare them to Slurm"
    )
    assert report.findings == []
    assert note in report.notes
    assert note in " ".join(recorded.text(report).split())
    changed = recorded.mutated(context, "worker3", "os.time_zone", (), "Europe/Berlin")
    assert recorded.only(recorded.report(changed).findings).rule == "os.time_zone"
