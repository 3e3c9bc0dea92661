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


def test_an_unknown_role_is_an_error_that_names_the_nearest_role_and_all_roles() -> None:
    wrong = {**description(), "unmanaged": ["node_exporter", "slurm_control", "xyzzy"]}
    wrong["nodes"][1]["unmanaged"] = ["mung"]
    loaded, problems = load(wrong, declared())
    assert loaded is None
    every = "ne of: all, " + ", ".join(role.name for role in declared())
    assert [(one.path, one.value, one.allowed) for one in problems] == [
        (("unmanaged", 1), "'slurm_control'", f"did you mean slurm_controller? O{every}"),
        (("unmanaged", 2), "'xyzzy'", f"o{every}"),
        (("nodes", 1, "unmanaged", 0), "'mung'", f"did you mean munge? O{every}"),
    ]


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


def test_a_group_leaves_a_role_to_the_site_that_other_groups_do_not() -> None:
    wanted = description()
    wanted["nodes"] = [
        {**group, "unmanaged": ["munge"]} if group["role"] == "head" else group
        for group in wanted["nodes"]
    ]
    loaded, problems = load(wanted, declared())
    assert loaded is not None, problems
    plan = planned(loaded)
    head, worker = plan.nodes[plan.heads[0]], plan.nodes["worker1"]
    assert ("munge" in head.roles, "munge" in worker.roles) == (False, True)
    assert "munge" in head.managed_or_not
    assert head.to_json()["unmanaged"] == ["munge"]
    assert not plan.spec.manages_nothing


def test_all_leaves_every_role_to_the_site() -> None:
    plan = cluster("all")
    assert plan.spec.manages_nothing
    for node in plan.nodes.values():
        assert node.roles == {}
        assert managed(node, None) == ()
        assert (node.software.packages, node.system.units, node.interfaces) == ((), (), ())
        assert node.managed_or_not.keys() == node.unmanaged & node.managed_or_not.keys()


def test_the_plan_names_what_the_site_manages_itself() -> None:
    assert cluster("munge", "rdma").notes[0].startswith("unmanaged on all nodes: munge, rdma; ")
    assert cluster("all").notes[0].startswith("unmanaged: every role; Lockstep only checks")
    assert not any("unmanaged" in note for note in cluster().notes)


def test_the_plan_names_the_packages_that_the_site_installs_for_managed_roles() -> None:
    others = [role.name for role in declared() if role.name not in ("packages", "time_sync")]
    said = [note for note in cluster("packages", *others).notes if "the site installs" in note]
    assert said == [
        "packages is unmanaged: the site installs what other roles need on head[1-2],worker[1-4]: "
        "chrony"
    ]
    for unmanaged in (others, ["all"]):
        assert not any("the site installs" in note for note in cluster(*unmanaged).notes)
