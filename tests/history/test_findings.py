"""The age of a finding: the first of the consecutive checks that have it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from lockstep.history.findings import noted, remembered
from lockstep.history.store import opened
from lockstep.report import Finding
from lockstep.when import MINUTE_S

NOW = 1795200000.0
RULES = ("gpu.count", "gpu.vbios")
NODES = ("worker1", "worker2")


def finding(rule: str = "gpu.count", node: str = "worker1", device: str = "") -> Finding:
    return Finding(rule, node, device, "gpu.count", "7", "8", "spec", "look")


class Checks:
    """Checks every ten minutes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "history.sqlite"
        self.turn = 0

    def __call__(
        self,
        *findings: Finding,
        rules: Collection[str] = RULES,
        nodes: Collection[str] = NODES,
    ) -> list[str]:
        now = NOW + 10 * MINUTE_S * self.turn
        self.turn += 1
        with opened(self.path) as history:
            return [found.history for found in noted(history, findings, rules, nodes, now)]


def test_a_row_goes_on_until_a_check_without_the_finding(tmp_path: Path) -> None:
    check = Checks(tmp_path)
    assert check(finding()) == ["2026-11-20 18:40 UTC (1 check)"]
    assert check(finding()) == ["2026-11-20 18:40 UTC (2 checks)"]
    assert check() == []
    assert check(finding()) == ["2026-11-20 19:10 UTC (1 check)"]


def test_what_was_not_judged_breaks_no_row(tmp_path: Path) -> None:
    check = Checks(tmp_path)
    check(finding())
    check(rules=("gpu.vbios",))
    check(nodes=("worker2",))
    assert check(finding()) == ["2026-11-20 18:40 UTC (2 checks)"]


def test_rule_node_and_device_are_the_finding(tmp_path: Path) -> None:
    check = Checks(tmp_path)
    check(finding())
    others = (finding("gpu.vbios"), finding(node="worker2"), finding(device="gpu1"))
    assert check(*others) == ["2026-11-20 18:50 UTC (1 check)"] * 3


def test_a_device_keeps_its_row_in_a_fold(tmp_path: Path) -> None:
    check = Checks(tmp_path)
    check(finding(device="gpu3"))
    assert check(finding(device="gpu[3-5]")) == ["2026-11-20 18:40 UTC (2 checks)"]
    assert check(finding(device="gpu4")) == ["2026-11-20 18:50 UTC (2 checks)"]
    assert check(finding(node="worker[1-2]", device="2M node1")) == [
        "2026-11-20 19:10 UTC (1 check)"
    ]
    assert check(finding(device="a[b")) == ["2026-11-20 19:20 UTC (1 check)"]


def test_what_is_remembered_is_not_counted(tmp_path: Path) -> None:
    check = Checks(tmp_path)
    check(finding())
    with opened(check.path) as history:
        known, new = remembered(history, [finding(), finding("gpu.vbios")])
    assert (known.history, new.history) == ("2026-11-20 18:40 UTC (1 check)", "")
