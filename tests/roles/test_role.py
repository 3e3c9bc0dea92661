"""Roles are applied in their order, without those that a run leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyinfra.api.exceptions import PyinfraError
from pyinfra.context import ctx_host, ctx_state

from lockstep.plan import NodePlan, owners
from lockstep.plan.declaration import Declaration, Phase, Stage, in_order, key, ordered
from lockstep.roles import declared
from lockstep.roles.operations import apply as module
from lockstep.roles.operations.apply import apply_roles, asked_for
from tests.checks import recorded
from tests.plan.example import planned
from tests.roles.local import machine
from tests.test_forgotten import ROLES

KNOWN = set(ROLES)


def test_a_run_without_roles_has_all() -> None:
    assert asked_for(None, KNOWN) == KNOWN


def test_a_run_has_the_roles_that_it_names() -> None:
    assert asked_for("munge,slurm_worker", KNOWN) == {"munge", "slurm_worker"}


def test_a_misspelt_name_has_a_suggestion() -> None:
    with pytest.raises(PyinfraError, match=r"unknown role 'mung'; did you mean munge\?"):
        asked_for("mung", KNOWN)


@pytest.mark.parametrize("asked", ["munge,", "barrier", "xyz"])
def test_a_wrong_name_is_an_error_that_says_the_right_ones(asked: str) -> None:
    with pytest.raises(
        PyinfraError, match=r"unknown role .*; known roles: .*munge, network, node_check"
    ):
        asked_for(asked, KNOWN)


def applied(
    plan: NodePlan, names: list[str], asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, int]]:
    """Return the roles that a deploy applies, each with its position in pyinfra's loop."""
    done: list[tuple[str, int]] = []
    state = machine()
    (host,) = state.inventory
    if asked is not None:
        host.data.roles = asked
    monkeypatch.setattr(
        module,
        "_operations",
        lambda role, stage: lambda plan: done.append((key((role, stage)), host.loop_position[0])),
    )
    monkeypatch.setattr(module, "recorded", lambda **arguments: None)
    with ctx_state.use(state), ctx_host.use(host):
        apply_roles(plan, names)
    return done


@pytest.mark.parametrize(
    ("asked", "ran"), [("munge", []), ("packages,node_exporter", ["packages", "node_exporter"])]
)
def test_a_role_that_a_run_does_not_name_does_nothing(
    asked: str, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned().nodes["head1"]
    done = applied(plan, ["node_exporter", "packages", "time_sync"], asked, monkeypatch)
    assert [name for name, _ in done] == ran


def test_the_order_of_lines_in_a_deploy_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = recorded.consistent().plan.nodes["worker3"]
    one = applied(plan, ROLES, None, monkeypatch)
    assert one == applied(plan, ROLES[::-1], None, monkeypatch)
    assert [name for name, _ in one if "." not in name] == list(plan.roles)


def test_a_stage_has_one_position_on_every_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyinfra would make one operation of different roles, where these positions were shared."""
    nodes = recorded.consistent().plan.nodes
    positions: dict[str, set[int]] = {}
    for node in ("head1", "worker3"):
        for name, position in applied(nodes[node], ROLES, None, monkeypatch):
            positions.setdefault(name, set()).add(position)
    assert {len(where) for where in positions.values()} == {1}
    assert len(set.union(*positions.values())) == len(positions)


def role(name: str, *after: str, stages: tuple[Stage, ...] = ()) -> Declaration:
    return Declaration(name=name, title=name, after=after, stages=stages)


def test_roles_come_in_the_order_that_they_declare_and_else_by_name() -> None:
    roles = [role("d"), role("c", "a"), role("a", "d"), role("b")]
    assert [one.name for one in in_order(roles)] == ["b", "d", "a", "c"]


def test_packages_come_before_all_roles() -> None:
    roles = [role("a"), role("packages"), role("z", "a")]
    assert [one.name for one in in_order(roles)] == ["packages", "a", "z"]


def test_a_stage_that_waits_comes_as_late_as_it_may() -> None:
    gate = Stage(function="gate", late=True)
    roles = [role("clock", stages=(gate,)), role("needs", "clock.gate"), role("other")]
    assert [key(step) for step in ordered(roles)] == ["clock", "other", "clock.gate", "needs"]


def test_a_stage_of_another_phase_is_not_one_of_the_main_ones() -> None:
    last = Stage(phase=Phase.AFTER_WORKERS)
    found = ordered([role("a", stages=(last,)), role("b", "a")])
    assert [(one.name, stage.phase) for one, stage in found] == [
        ("a", Phase.MAIN),
        ("b", Phase.MAIN),
        ("a", Phase.AFTER_WORKERS),
    ]


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ([role("a", "b"), role("b", "a")], "the order of roles has a cycle: a -> b -> a"),
        ([role("a", "nfs")], "a must come after 'nfs', but no role or stage has"),
    ],
)
def test_roles_without_an_order_are_refused(roles: list[Declaration], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ordered(roles)


def test_a_role_whose_service_reads_files_of_another_runs_with_it() -> None:
    """Without that, a new munge key would reach slurmd with the next whole deploy only."""
    worker = recorded.consistent().plan.nodes["worker1"]
    assert owners.readers(worker) == {"slurm_worker": {"munge", "pyxis"}}
    assert owners.together(worker, ["munge"]) == ("munge", "slurm_worker")


def test_new_mig_devices_are_slurmds_business_as_well() -> None:
    worker = recorded.consistent().plan.nodes["worker1"]
    assert owners.together(worker, ["gpu_settings"]) == ("gpu_settings",)
    divided = recorded.clustered(
        lambda wanted: wanted["hardware"]["hgx-h200"]["gpu"].update(mig=["3g.71gb"] * 2)
    ).plan.nodes["worker1"]
    assert owners.together(divided, ["gpu_settings"]) == ("gpu_settings", "slurm_worker")


def test_units_and_packages_have_roles_of_the_node() -> None:
    for node in planned().nodes.values():
        for unit in node.system.units:
            assert set(owners.of_unit(node, unit)) <= set(node.roles)
            assert len(owners.of_unit(node, unit)) == 1, unit
        for package in node.software.packages:
            assert {"packages"} <= set(owners.of_package(node, package)) <= set(node.roles)


def test_a_package_is_its_daemons_too() -> None:
    worker = planned().nodes["worker1"]
    assert owners.together(worker, owners.of_package(worker, "slurmd")) == (
        "packages",
        "slurm_worker",
    )


def test_a_role_knows_nothing_of_other_roles_when_it_says_where_it_belongs() -> None:
    """``when`` is asked before the roles of a node are known."""
    plan = recorded.consistent().plan
    for node in plan.nodes.values():
        bare = NodePlan(node.node, node.hardware, replace(node.cluster, roles=()))
        for one in declared():
            assert one.when(bare) == (one.name in node.roles), (node.name, one.name)
