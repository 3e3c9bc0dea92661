"""Declared firmware: it decides even if all nodes agree on another version."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.report import Finding
from tests.checks import recorded

NODES = [f"worker{number}" for number in range(1, 9)]


def found(rule: str, **firmware: str) -> list[Finding]:
    def declare(wanted: dict[str, Any]) -> None:
        for one in wanted["hardware"].values():
            if "gpu" in one:
                one["firmware"] = firmware

    return [
        one for one in recorded.report(recorded.clustered(declare)).findings if one.rule == rule
    ]


@pytest.mark.parametrize(
    ("rule", "field", "declared", "seen"),
    [
        ("gpu.vbios", "vbios", "96.00.99.00.01", "96.00.A5.00.03"),
        ("rdma.firmware", "rdma", "28.99.1002", "28.39.1002"),
        ("platform.bmc_firmware", "bmc", "1.74", "1.3"),
    ],
)
def test_another_version_on_all_nodes(rule: str, field: str, declared: str, seen: str) -> None:
    findings = found(rule, **{field: declared})
    assert {one.node for one in findings} == set(NODES)
    for one in findings:
        assert seen in one.found
        assert declared in one.expected
        assert one.reference == "spec"
        assert declared in one.repair
    assert found(rule, **{field: seen}) == []
