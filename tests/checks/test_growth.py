"""Counters in two records of one boot: growth, resets, and missing values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.checks.rule import Kind, Look, Rule, by_hand
from lockstep.probe.record import Record, only_records
from lockstep.report import ExitStatus, Report
from tests.checks import recorded

START = 1795200000.0  # 2026-11-20 18:40 UTC
NODES = ("worker1", "worker2", "worker3")
ERRORS = Rule(
    id="gpu.errors",
    claim="no new errors",
    reading="gpu.errors",
    look=Look(devices="gpu.uuid"),
    kind=Kind.GROWTH,
    repair=by_hand("look at {node} {device}"),
    applies=lambda view: view.plan.name in NODES,
)
TIMES = replace(ERRORS, id="gpu.times", reading="gpu.times")


def counted(values: Any = 5, *, hours: float = 0.0, boot: Any = "one", node: str = "") -> Context:
    """Return the cluster some hours after the start; the values are those of one node, or all."""
    start = recorded.consistent()
    reading = dict(start.reading)
    for name in NODES:
        old = reading[name]
        assert isinstance(old, Record)
        raw = old.model_dump(mode="json")
        mine = values if node in ("", name) else 5
        each = mine if isinstance(mine, dict) else {f"gpu{i}": mine for i in range(8)}
        raw["taken_at"] = START + 3600 * hours
        for counter in ("gpu.errors", "gpu.times"):
            raw["readings"][counter] = {"value": each}
        raw["readings"]["os.boot_id"] = boot if isinstance(boot, dict) else {"value": boot}
        reading[name] = Record.model_validate(raw)
    return recorded.with_reading(start, reading)


def judged(before: Context | None, now: Context, *rules: Rule) -> Report:
    earlier = None if before is None else only_records(before.reading)
    return check(rules or [ERRORS], replace(now, before=earlier))


def test_counters_that_did_not_grow_give_no_finding() -> None:
    report = judged(counted(), counted(hours=3))
    assert (report.findings, report.notes) == ([], ())


def test_growth_says_by_how_much_in_which_time_and_since_which_record() -> None:
    gpu3 = {f"gpu{i}": 57 if i == 3 else 5 for i in range(8)}
    found = recorded.only(judged(counted(), counted(gpu3, hours=3.2, node="worker2")))
    assert (found.node, found.device, found.status) == ("worker2", "gpu3", "differs")
    assert found.found == "57: 52 more in 3 h 12 min"
    assert found.expected == "5, no more"
    assert found.reference == "earlier record, 2026-11-20 18:40 UTC"
    assert found.repair == "look at worker2 gpu3"


def test_large_counters_keep_their_digits() -> None:
    found = recorded.only(judged(counted(), counted(12345678, hours=1, node="worker1")))
    assert found.found == "12345678: 12345673 more in 1 h"
    assert found.device == "gpu[0-7]"


@pytest.mark.parametrize(
    ("now", "hours", "fine"),
    [(15, 1, True), (16, 1, False), (35, 3, True), (36, 3, False), (15, 0.1, True)],
)
def test_a_rule_may_allow_some_growth_an_hour(now: int, hours: float, fine: bool) -> None:
    some = replace(ERRORS, tolerance=10.0)
    report = judged(counted(), counted(now, hours=hours, node="worker1"), some)
    assert (report.findings == []) == fine
    if not fine:
        assert recorded.only(report).expected == "5, at most 10 more per hour"


SET_BACK = (
    "growth: counters of worker1 were reset after {} (a reset of GPUs or adapters); "
    "their growth before the reset is unknown"
)
EARLIER = SET_BACK.format("2026-11-20 18:40 UTC")


def test_counters_that_went_back_are_said_once_for_a_node_and_are_no_finding() -> None:
    report = judged(counted(), counted(2, hours=1, node="worker1"), ERRORS, TIMES)
    assert (report.findings, report.notes) == ([], (EARLIER,))
    assert report.exit_status is ExitStatus.CONSISTENT


def test_what_grew_beside_what_went_back_is_still_found() -> None:
    mixed = {f"gpu{i}": {0: 9, 1: 2}.get(i, 5) for i in range(8)}
    report = judged(counted(), counted(mixed, hours=1, node="worker1"))
    assert [(f.device, f.status) for f in report] == [("gpu0", "differs")]
    assert report.notes == (EARLIER,)


def test_after_a_reset_the_next_record_is_compared_with_the_one_that_showed_it() -> None:
    between = counted(2, hours=0.9, node="worker1")
    latest = only_records(between.reading)
    same = replace(counted(2, hours=1, node="worker1"), latest=latest)
    report = judged(counted(), same)
    assert (report.findings, report.notes) == ([], ()), "it was said when it was new"
    more = replace(counted(4, hours=1, node="worker1"), latest=latest)
    found = recorded.only(judged(counted(), more))
    assert (found.device, found.found) == ("gpu[0-7]", "4: 2 more in 6 min")
    assert found.reference == "earlier record, 2026-11-20 19:34 UTC"


def test_a_second_reset_and_a_record_of_the_same_minute_are_said_again() -> None:
    latest = only_records(counted(2, hours=0.9, node="worker1").reading)
    report = judged(counted(), replace(counted(1, hours=1, node="worker1"), latest=latest))
    assert report.notes == (SET_BACK.format("2026-11-20 19:34 UTC"),)
    latest = only_records(counted(2, hours=0.999, node="worker1").reading)
    report = judged(counted(), replace(counted(2, hours=1, node="worker1"), latest=latest))
    assert report.notes == (EARLIER,)


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        (-2, "record taken 2 h before the earlier one, by the node's clock"),
        (0.01, "record taken 36 s after the earlier one, by the node's clock"),
    ],
)
def test_a_clock_that_was_set_is_unknown_once(hours: float, said: str) -> None:
    report = judged(counted(), counted(hours=hours), ERRORS, TIMES)
    assert [(f.node, f.rule, f.status, f.found) for f in report] == [
        (name, "gpu.errors", "unknown", said) for name in NODES
    ]
    assert report.findings[0].detail == "also causes: gpu.times"


def test_without_an_earlier_record_of_the_boot_growth_is_not_judged_and_a_note_says_so() -> None:
    for before in (None, counted(0, boot="another")):
        report = judged(before, counted(hours=1))
        assert report.findings == []
        assert report.notes == ("growth: 3 of 3 nodes have no earlier record of this boot",)
        assert recorded.text(report).startswith("growth: 3 of 3 nodes have no earlier record")


def test_the_note_counts_the_nodes_of_a_limit() -> None:
    report = check([ERRORS], counted(), ["worker2"])
    assert report.notes == ("growth: 1 of 1 node has no earlier record of this boot",)


def test_counters_that_are_new_or_were_unread_are_counted() -> None:
    before = {f"gpu{i}": {"unread": "[N/A]"} if i == 1 else 5 for i in range(7)}
    report = judged(counted(before, node="worker1"), counted(99, hours=1, node="worker1"))
    assert {f.device for f in report} == {"gpu0,gpu[2-6]"} or {f.device for f in report} == {
        "gpu[0,2-6]"
    }
    assert report.notes == ("growth: 2 counters have no earlier reading from this boot",)


def test_an_unread_counter_is_unread_as_ever() -> None:
    now = {f"gpu{i}": {"unread": "[N/A]"} if i == 1 else 5 for i in range(8)}
    found = recorded.only(judged(counted(), counted(now, hours=1, node="worker1")))
    assert (found.device, found.found) == ("gpu1", "not read: [N/A]")


def test_a_boot_that_could_not_be_told_is_unknown() -> None:
    unread = {"unread": "no such file"}
    report = judged(counted(), counted(hours=1, boot=unread), ERRORS, TIMES)
    assert {f.found for f in report} == {"os.boot_id not read: no such file"}
    assert len(report.findings) == len(NODES)


def test_what_is_no_number_is_unknown() -> None:
    now = {f"gpu{i}": "many" if i == 1 else 5 for i in range(8)}
    found = recorded.only(judged(counted(), counted(now, hours=1, node="worker1")))
    assert (found.device, found.status, found.found) == ("gpu1", "unknown", "not a number: 'many'")
