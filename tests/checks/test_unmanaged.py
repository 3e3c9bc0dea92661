"""The check does not compare a role that the site manages with the plan, but between nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.rules.boot import OWNED
from lockstep.fleet.request import request
from lockstep.inventory import planned
from lockstep.report import Reference
from lockstep.roles import declared
from lockstep.spec import load
from tests.checks import recorded
from tests.checks.mutation import Mutation
from tests.checks.test_mutations import MUTATIONS

ROLES = {role.name for role in declared()}
SET_BY = {one.id: {one.repair.owner, one.expected.set_by} & ROLES for one in all_rules()}


def left(*roles: str) -> Context:
    """Return the recorded cluster, whose site manages these roles."""
    return described(lambda wanted: wanted.update(unmanaged=list(roles)))


def described(change: Callable[[dict[str, Any]], None]) -> Context:
    """Return the recorded cluster with another description; its nodes stay as they are."""
    wanted = copy.deepcopy(recorded.DESCRIPTION)
    change(wanted)
    cluster, problems = load(wanted, declared())
    assert cluster is not None, problems
    plan = planned(cluster, inventory="inventories/recorded.py")
    return replace(recorded.consistent(), plan=plan)


def found(context: Context) -> list[tuple[str, str, str]]:
    return [(one.rule, one.node, one.reference[:5]) for one in recorded.report(context).findings]


def one_key(context: Context, value: str) -> Context:
    return recorded.mutated(context, "worker3", "munge.key_sha256", (), value)


def test_what_the_role_sets_is_then_compared_with_the_peers_only() -> None:
    changed = one_key(left("munge"), "0" * 64)
    finding = recorded.only(recorded.report(changed, "munge.key").findings)
    assert (finding.node, finding.roles) == ("worker3", ())
    assert finding.reference.startswith(Reference.PEERS.value)
    assert "pyinfra" not in finding.repair
    every = left("munge")
    for node in every.plan.nodes:
        every = recorded.mutated(every, node, "munge.key_sha256", (), "0" * 64)
    assert found(every) == []


def test_a_repair_names_the_deploy_only_while_the_role_is_lockstep_s() -> None:
    for context, reference in ((recorded.consistent(), "spec"), (left("os_settings"), "")):
        changed = recorded.mutated(context, "worker3", "os.time_zone", (), "Asia/Tokyo")
        assert found(changed) == ([("os.time_zone", "worker3", "spec")] if reference else [])


def test_containers_get_rdma_devices_whoever_manages_the_role() -> None:
    for context in (recorded.consistent(), left("rdma")):
        asked = request(context.plan.nodes["worker3"], containers=True)
        assert asked.container_devices == ("/dev/infiniband",)


def test_a_group_of_nodes_is_judged_by_its_own_roles() -> None:
    def of_heads(wanted: dict[str, Any]) -> None:
        for group in wanted["nodes"]:
            if group["role"] == "head":
                group["unmanaged"] = ["os_settings"]

    context = described(of_heads)
    for node in ("head1", "worker3"):
        context = recorded.mutated(context, node, "os.time_zone", (), "Asia/Tokyo")
    assert found(context) == [("os.time_zone", "worker3", "spec")]


@pytest.mark.parametrize("role", sorted(ROLES))
def test_a_consistent_cluster_stays_without_findings(role: str) -> None:
    context = left(role)
    # What other roles write can depend on the role, such as the versions that apt prefers.
    written = recorded.consistent()
    same = {
        (name, path)
        for name, plan in context.plan.nodes.items()
        for path, file in context.files_of(plan).items()
        if written.files_of(written.plan.nodes[name])[path].sha256 == file.sha256
    }
    findings = recorded.report(context).findings
    assert [
        one for one in findings if one.rule != "file.content" or (one.node, one.device) in same
    ] == []


def test_kernel_arguments_are_foreign_only_where_lockstep_sets_them() -> None:
    for role, rules in (("cuda", {"kernel.args_foreign"}), ("boot_loader", set())):
        context = left(role)
        assert OWNED[1] == "nohz_full"
        for node in context.plan.nodes:
            line = context.views[node].read("kernel.cmdline")
            assert isinstance(line, list)
            words = [*line, "nohz_full=3"]
            context = recorded.mutated(context, node, "kernel.cmdline", (), words)
        assert {one.rule for one in recorded.report(context, "kernel.args_foreign").findings} == (
            rules
        )


def test_sysctls_of_the_site_are_compared_between_nodes() -> None:
    context = left("os_settings")
    key = next(iter(context.plan.nodes["worker3"].system.sysctl))
    for node in context.plan.nodes:
        context = recorded.mutated(context, node, "sysctl.running", (key,), "77")
        context = recorded.mutated(context, node, "sysctl.common", (key,), "77")
    assert found(context) == []
    differs = recorded.mutated(context, "worker3", "sysctl.common", (key,), "78")
    assert found(differs) == [("sysctl.common", "worker3", "peers")]


@pytest.mark.parametrize(
    "mutation",
    [one for one in MUTATIONS if SET_BY.get(one.rule)],
    ids=lambda one: f"{one.rule} {one.device}",
)
def test_without_a_managed_role_no_finding_is_about_what_a_role_would_set(
    mutation: Mutation,
) -> None:
    node, reading, path, value = mutation.node, mutation.reading, mutation.path, mutation.value
    findings = recorded.report(recorded.mutated(ALL, node, reading, path, value)).findings
    spec = [one for one in findings if one.reference == Reference.SPEC.value]
    assert [one for one in spec if one.rule == mutation.rule and one.status == "differs"] == []
    assert [one for one in findings if one.roles] == []


ALL = left("all")


def test_nothing_managed_leaves_nothing_to_find_on_nodes_that_are_alike() -> None:
    assert found(ALL) == []
    assert any("every role" in note for note in recorded.report(ALL).notes)
