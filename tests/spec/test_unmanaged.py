"""Roles that the description leaves to the site."""

from __future__ import annotations

from lockstep.files import managed
from lockstep.inventory import planned
from lockstep.plan import ClusterPlan
from lockstep.roles import declared
from lockstep.spec import load
from tests.spec.example import description


def cluster(*unmanaged: str) -> ClusterPlan:
    loaded, problems = load({**description(), "unmanaged": list(unmanaged)}, declared())
    assert loaded is not None, problems
    return planned(loaded)


def test_an_unknown_role_is_an_error_with_all_roles() -> None:
    wrong = {**description(), "unmanaged": ["node_exporter", "nfs"]}
    loaded, (problem,) = load(wrong, declared())
    assert loaded is None
    assert (problem.path, problem.value) == (("unmanaged", 1), "'nfs'")
    assert problem.allowed == "one of: " + ", ".join(role.name for role in declared())


def test_such_a_role_has_no_files_units_and_packages_on_any_node() -> None:
    plan = cluster("node_exporter").nodes["worker1"]
    assert "node_exporter" not in plan.roles
    assert "prometheus-node-exporter" not in plan.software.packages
    assert "prometheus-node-exporter.service" not in plan.system.units
    assert "/etc/default/prometheus-node-exporter" not in {f.path for f in managed(plan, None)}


def test_every_role_can_be_left_to_the_site() -> None:
    for role in declared():
        for plan in cluster(role.name).nodes.values():
            assert role.name not in plan.roles
            assert plan.to_json()
            assert isinstance(managed(plan, None), tuple)
