"""Nodes that wait are compared with settled nodes of their class, during a change as well."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.checks import engine, settled, slurm_states
from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.checks.rules.system import NODE_REACHABLE
from lockstep.checks.settled import Batch, batches, joined, unsettled
from lockstep.facts import slurm as facts
from lockstep.report import Report
from lockstep.roles.steps.reboot import decision
from tests.checks import recorded
from tests.checks.recorded_fingerprint import with_objects
from tests.checks.test_fingerprint import Changes, of

RULES = list(all_rules())
WORKERS = [f"worker{number}" for number in range(1, 9)]
STRAY: Changes = {"file": {"/etc/stray": {"mode": "0644", "content": "x"}}}


def parts(context: Context, *waiting: str) -> list[Batch]:
    return [*batches(RULES, context, waiting)]


def compared(context: Context, *waiting: str) -> Report:
    return joined(check(RULES, part.context, part.nodes) for part in parts(context, *waiting))


def has_vote(part: Batch) -> set[str]:
    return {name for name in part.context.views if name not in part.nodes}


def drained(start: Context, reason: str, *nodes: str) -> Context:
    for node in nodes:
        for key, value in (("state", ["IDLE", "DRAIN"]), ("reason", reason)):
            path = (node, key)
            start = recorded.mutated(start, "head1", "slurm.nodes", path, value)
    return start


def test_with_nothing_in_progress_all_others_have_a_vote() -> None:
    (part,) = parts(recorded.consistent(), "worker3")
    assert part.nodes == {"worker3"}
    assert has_vote(part) == {*WORKERS, "head1"} - {"worker3"}


@pytest.mark.parametrize(
    ("reading", "path", "value"),
    [
        ("kernel.cmdline", (), ["quiet"]),  # waits for a reboot
        ("sysctl.running", ("net.core.somaxconn",), "128"),  # a role sets it
    ],
)
def test_a_node_that_is_not_as_described_yet_has_no_vote(
    reading: str, path: tuple[str, ...], value: Any
) -> None:
    start = recorded.mutated(recorded.consistent(), "worker5", reading, path, value)
    (part,) = parts(start, "worker3")
    assert has_vote(part) == {*WORKERS, "head1"} - {"worker3", "worker5"}


def test_a_node_that_lockstep_drained_has_no_vote_and_one_of_a_person_has() -> None:
    start = recorded.consistent()
    marks = ("lockstep: gpu.count", "lockstep-compare: x", "lockstep-reboot: kernel", "fan")
    for node, mark in zip(WORKERS, marks, strict=False):
        start = drained(start, mark, node)
    (part,) = parts(start, "worker8")
    assert has_vote(part) == {*WORKERS[3:7], "head1"}


def test_a_fault_that_no_role_sets_takes_no_vote_away() -> None:
    start = recorded.mutated(
        recorded.consistent(), "worker5", "rdma.firmware", ("mlx5_1",), "28.37"
    )
    (part,) = parts(start, "worker3")
    assert "worker5" in has_vote(part)


def test_the_controller_is_read_even_if_it_is_about_to_change() -> None:
    start = recorded.mutated(
        recorded.consistent(), "head1", "units", ("prometheus.service", "active"), "inactive"
    )
    (part,) = parts(start, "worker3")
    assert "head1" in has_vote(part)
    assert compared(start, "worker3").findings == []
    assert compared(recorded.consistent(), "head1", *WORKERS).findings == [], "heads wait as well"


def test_nodes_that_wait_are_too_few_at_a_time_to_outvote_the_settled_ones() -> None:
    new = WORKERS[2:]
    assert [sorted(part.nodes) for part in parts(recorded.consistent(), *new)] == [
        [name] for name in new
    ]


def test_groups_are_larger_if_too_many_nodes_wait_for_the_settled_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settled, "MOST_BATCHES", 4)
    assert [sorted(part.nodes) for part in parts(recorded.consistent(), *WORKERS[2:])] == [
        WORKERS[2:4],
        WORKERS[4:6],
        WORKERS[6:],
    ]


def test_a_group_has_nothing_about_nodes_that_have_no_vote() -> None:
    """Otherwise each of many groups would have a finding about each of many nodes."""
    for part in parts(recorded.consistent(), *WORKERS[2:]):
        assert {*part.context.reading} == {"head1", *WORKERS[:2], *part.nodes}
        made = engine._unreachable(NODE_REACHABLE, part.context, part.nodes)
        assert [*made] == []


def test_few_new_nodes_are_compared_at_once() -> None:
    assert [sorted(part.nodes) for part in parts(recorded.consistent(), *WORKERS[6:])] == [
        ["worker7", "worker8"]
    ]


def test_new_nodes_of_a_new_class_are_compared_with_each_other() -> None:
    start = with_objects(recorded.consistent(), of("worker3", STRAY))
    (part,) = parts(start, *WORKERS)
    assert part.nodes == {*WORKERS}
    assert {one.node for one in compared(start, *WORKERS).findings} == {"worker3"}


def test_a_worker_with_the_new_driver_is_not_blamed_for_its_peers() -> None:
    """A rollout has changed worker3 only. The description names the driver that it has."""
    start = recorded.consistent()
    old: Changes = {
        "package": {"libnvidia-ml1": {"version": "580"}},
        "module": {"nvidia": {"at": "580"}},
    }
    changed: dict[str, Any] = {}
    for node in WORKERS:
        if node != "worker3":
            path = ("libnvidia-ml1",)
            start = recorded.mutated(start, node, "packages", path, "580.1-1")
            changed |= of(node, old)
    new: Changes = {
        "package": {"libnvidia-ml1": {"version": "590"}},
        "module": {"nvidia": {"at": "590"}},
    }
    start = with_objects(start, {**changed, **of("worker3", new)})
    blamed = check(RULES, start, ["worker3"]).findings
    assert {one.device for one in blamed} >= {"nvidia"}, "by seven peers that wait for a reboot"
    (part,) = parts(start, "worker3")
    assert has_vote(part) == {"head1"}
    assert compared(start, "worker3").findings == []


def test_two_nodes_of_which_nobody_knows_the_right_one_are_undecided() -> None:
    start = recorded.unreachable(recorded.consistent(), *WORKERS[2:])
    one: Changes = {"sysctl": {"plain": {"value": "1"}}}
    start = with_objects(start, of("worker2", one))
    found = compared(start, "worker2").findings
    assert {finding.status for finding in found} == {"undecided"}


def test_a_node_without_a_record_is_named() -> None:
    start = recorded.unreachable(recorded.consistent(), "worker3")
    assert [one.rule for one in compared(start, "worker3").findings] == ["node.reachable"]


def test_without_an_answer_of_the_controller_drains_are_not_known() -> None:
    start = recorded.mutated(recorded.consistent(), "head1", "slurm.nodes", (), recorded.REMOVED)
    assert unsettled(Report(), start) == frozenset()


def test_deploys_and_checks_mean_the_same_marks() -> None:
    assert (slurm_states.OUR_MARK, slurm_states.COMPARE_MARK) == (facts.OURS, facts.NOT_COMPARED)
    assert slurm_states.AWAITS_REBOOT == facts.AWAITS_REBOOT
    assert decision.OURS == slurm_states.REBOOT_MARK
