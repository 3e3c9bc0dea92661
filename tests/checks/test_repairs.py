"""A repair names the roles that set a value; a report names the deploys that it needs."""

from __future__ import annotations

import re
from functools import cache

import pytest

from lockstep import repairs
from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.rule import DEPLOY, NO_ROLE, Rule
from lockstep.repairs import Deploy, Why
from lockstep.report import Finding, Reference, Report, Status
from lockstep.spec import NodeRole
from tests.checks import recorded
from tests.checks.recorded import REMOVED
from tests.checks.test_mutations import ALL
from tests.test_forgotten import ROLES, applied

PLAN = recorded.consistent().plan
BEGINS = re.compile(r"pyinfra -y \S+ deploys/(head|worker)\.py --limit \S+ --data roles=\w")
SYSCTL = ("sysctl.running", ("net.core.somaxconn",), "128")


@cache
def findings() -> tuple[Finding, ...]:
    """What the rules say of each mutation, all of them together."""
    found: list[Finding] = []
    for one in ALL:
        changed = recorded.mutated(
            recorded.consistent(), one.node, one.reading, one.path, one.value
        )
        found += recorded.report(changed, one.rule)
    return tuple(found)


def test_what_a_deploy_repairs_names_roles_of_that_nodes_deploy() -> None:
    named = [finding for finding in findings() if finding.roles]
    assert len({finding.rule for finding in named}) > 30
    for finding in named:
        node = PLAN.nodes[finding.node]
        assert set(finding.roles) <= set(applied(node.role.value)), finding
        assert set(finding.roles) <= set(node.roles), finding
        command = f"deploys/{node.role.value}.py --limit {finding.node} "
        assert f"{command}--data roles={','.join(finding.roles)}" in finding.repair


def test_no_repair_is_a_deploy_without_roles() -> None:
    for finding in findings():
        assert bool(finding.roles) == bool(BEGINS.match(finding.repair)), finding
        assert not re.search(r"roles=(\W|$)", finding.repair), finding


@pytest.mark.parametrize(
    "rule", [one for one in all_rules() if one.repair.text.startswith(DEPLOY)], ids=lambda r: r.id
)
def test_a_deploy_needs_an_owner_wherever_the_spec_speaks(rule: Rule) -> None:
    """A rule whose peers speak has a repair of theirs; kernel.newest only ever waits."""
    if rule.repair.roles is None and rule.repair.owner not in ROLES:
        assert rule.repair.peers or not rule.expected.is_declared


def test_a_port_of_a_unit_that_no_role_has_is_a_persons() -> None:
    closed = recorded.mutated(
        recorded.consistent(), "worker3", "listeners", ("tcp/22",), ["127.0.0.1"]
    )
    one = recorded.only(recorded.report(closed))
    assert one.roles == ()
    assert one.repair == NO_ROLE.format(node="worker3", device="tcp/22")


# -- deploys


def changed(*places: tuple[str, tuple[str, tuple[str, ...], object]]) -> Context:
    context = recorded.consistent()
    for node, place in places:
        context = recorded.mutated(context, node, *place)
    return context


def test_nodes_that_need_the_same_roles_are_one_run_and_heads_come_first() -> None:
    key = ("munge.key_sha256", (), "00" * 32)
    report = recorded.report(
        changed(
            ("worker3", SYSCTL),
            ("worker1", SYSCTL),
            ("worker2", key),
            ("head1", SYSCTL),
        )
    )
    assert repairs.deploys(report, PLAN) == [
        Deploy(NodeRole.HEAD, ("head1",), ("os_settings",)),
        Deploy(NodeRole.WORKER, ("worker1", "worker3"), ("os_settings",)),
        Deploy(NodeRole.WORKER, ("worker2",), ("munge", "slurm_worker")),
    ]


def test_all_that_one_node_needs_is_one_run_in_deploy_order() -> None:
    stopped = ("units", ("prometheus-node-exporter.service", "active"), "inactive")
    report = recorded.report(changed(("worker3", stopped), ("worker3", SYSCTL)))
    assert repairs.deploys(report, PLAN) == [
        Deploy(NodeRole.WORKER, ("worker3",), ("os_settings", "node_exporter"))
    ]


def test_a_few_nodes_are_named_and_a_large_group_has_its_name() -> None:
    large = recorded.clustered(lambda wanted: wanted["nodes"][1].update(name="worker[1-9]")).plan
    workers = [name for name, node in large.nodes.items() if node.role is NodeRole.WORKER]
    assert repairs.limits(workers, large) == ["--limit", "worker"]
    assert repairs.limits(workers[:2], large) == [
        *("--limit", "worker1"),
        *("--limit", "worker2"),
    ]


def said(status: Status, repair: str = "do it", roles: tuple[str, ...] = ()) -> Finding:
    return Finding(
        "a.rule",
        "worker1",
        "gpu[0-3]",
        *("a", "b", "c", Reference.SPEC.value),
        repair,
        status=status.value,
        roles=roles,
    )


RAN = (Deploy(NodeRole.WORKER, ("worker1",), ("munge", "slurm_worker")),)


@pytest.mark.parametrize(
    ("finding", "why"),
    [
        (said(Status.UNKNOWN), Why.UNREAD),
        (said(Status.UNDECIDED), Why.UNDECIDED),
        (said(Status.PENDING_REBOOT), Why.REBOOT),
        (said(Status.DIFFERS), Why.PERSON),
        (said(Status.DIFFERS, roles=("munge",)), Why.STAYED),
        (said(Status.DIFFERS, f"it, then {repairs.REBOOT}", ("munge",)), Why.REBOOT),
        (said(Status.DIFFERS, roles=("packages",)), Why.DEPLOY),
    ],
)
def test_what_is_left_has_a_reason(finding: Finding, why: Why) -> None:
    assert repairs.left(Report(findings=[finding]), RAN) == {why: [finding]}


def test_what_is_gone_is_counted_device_by_device() -> None:
    before = Report(findings=[said(Status.DIFFERS, roles=("munge",)), said(Status.UNDECIDED)])
    one = said(Status.DIFFERS, roles=("munge",))
    after = Report(findings=[Finding(**{**vars(one), "device": "gpu[2-3]"})])
    assert [finding.device for finding in repairs.repaired(before, after)] == ["gpu[0-1]"]
    (gone,) = repairs.repaired(before, Report())
    assert re.fullmatch(r"gpu\[0-3\]", gone.device)


def test_a_folded_repair_keeps_its_roles() -> None:
    report = recorded.report(
        changed(*((n, ("packages", ("munge",), REMOVED)) for n in ("worker1", "worker2")))
    )
    assert "--limit worker1 --limit worker2 --data roles=packages,munge" in recorded.text(report)
