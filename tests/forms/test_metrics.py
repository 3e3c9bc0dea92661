"""Metrics as a parser of Prometheus reads them; tests/lab asks promtool."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from lockstep.forms.metrics import metrics
from lockstep.node.check import metrics as node_metrics
from lockstep.node.check.judge import Judgement
from lockstep.render import TEMPLATES
from lockstep.report import Report, Status
from tests.forms.large import NODES, RUN, finding, large

Series = tuple[str, frozenset[tuple[str, str]]]


def read(report: Report) -> dict[Series, float]:
    found: dict[Series, float] = {}
    for family in text_string_to_metric_families(metrics(report, RUN)):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            series = (sample.name, frozenset(sample.labels.items()))
            assert series not in found, "node_exporter refuses the whole file"
            found[series] = sample.value
    return found


def series(rule: str, node: str, device: str, severity: str, status: str) -> Series:
    labels = {"rule": rule, "node": node, "device": device, "severity": severity, "status": status}
    return "lockstep_finding", frozenset(labels.items())


def test_every_finding_is_a_series_of_each_node_and_device() -> None:
    found = read(large())
    assert found["lockstep_rules", frozenset()] == 42
    assert found["lockstep_nodes", frozenset({("state", "read")})] == 1960
    assert found["lockstep_nodes", frozenset({("state", "unread")})] == 40
    assert found["lockstep_check_timestamp_seconds", frozenset()] == RUN.at
    assert found["lockstep_check_duration_seconds", frozenset()] == RUN.duration_s
    assert found[series("gpu.power_limit", "worker0043", "gpu3", "error", "differs")] == 1
    tie = [s for s in found if ("rule", "rdma.firmware") in s[1]]
    assert len(tie) == len(NODES)
    assert {dict(labels)["status"] for _, labels in tie} == {Status.UNDECIDED.value}


def test_folded_devices_are_counted_one_by_one_and_the_same_only_once() -> None:
    report = Report(NODES[:1], ("gpu.ecc",))
    report.findings.extend([finding("gpu.ecc", NODES[0], "gpu[0-7]", "off", "on")])
    report.findings.extend([finding("gpu.ecc", NODES[0], "gpu3", "broken", "on")])
    found = [labels for name, labels in read(report) if name == "lockstep_finding"]
    assert sorted(dict(labels)["device"] for labels in found) == [f"gpu{i}" for i in range(8)]


def test_labels_are_escaped() -> None:
    hostile = 'a"b\\c{d}=,e'
    report = Report(NODES[:1], ("file.mode",))
    report.findings.extend([finding("file.mode", NODES[0], hostile, "1", "2")])
    assert read(report)[series("file.mode", NODES[0], hostile, "error", "differs")] == 1


def test_the_alerts_ask_for_metrics_that_are_written() -> None:
    rules = (TEMPLATES / "prometheus/rules.yml.j2").read_text(encoding="utf-8")
    asked = set(re.findall(r"\blockstep_\w+", rules))
    assert asked
    of_nodes = node_metrics.text([Judgement(("gpu.count",), rule="gpu.count")], [], 1.0)
    written = {
        sample.name
        for family in text_string_to_metric_families(of_nodes)
        for sample in family.samples
    }
    assert asked <= {name for name, _ in read(large())} | written
