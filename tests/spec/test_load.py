"""A valid description after loading."""

from lockstep.roles import declared
from lockstep.spec import Cluster, NodeRole, Service, load, nodes
from tests.spec.example import description


def cluster() -> Cluster:
    loaded, problems = load(description(), declared())
    assert problems == []
    assert loaded is not None
    return loaded


def test_ranges_are_written_out_with_their_addresses() -> None:
    third = {node.name: node for node in nodes(cluster())}["worker3"]
    assert str(third.management) == "fd00:1::102"
    assert [str(address) for address in third.fabric] == [
        "fd00:2::102",
        *(f"fd00:2:0:{rail}::102" for rail in range(1, 8)),
    ]
    assert (third.role, third.hardware, third.runs) == (NodeRole.WORKER, "hgx", ())


def test_a_node_without_a_fabric_address_has_none() -> None:
    first = next(nodes(cluster()))
    assert first.fabric == ()
    assert first.runs == (Service.SLURM_CONTROLLER, Service.SLURM_ACCOUNTING)


def test_addresses_carry_over_the_last_digits() -> None:
    changed = description()
    changed["nodes"][2].update(name="worker[1-3]", management="fd00:1::feff", fabric=None)
    changed["scheduler"]["partitions"] = []
    loaded, problems = load(changed, declared())
    assert problems == []
    assert loaded is not None
    assert [str(n.management) for n in nodes(loaded)][2:] == [
        "fd00:1::feff",
        "fd00:1::ff00",
        "fd00:1::ff01",
    ]


def test_ipv4_is_there_for_who_asks() -> None:
    changed = description()
    changed["networks"] = {"management": {"prefix": "10.1.0.0/16"}}
    for number, group in enumerate(changed["nodes"]):
        group.update(management=f"10.1.{number}.250", fabric=None)
    loaded, problems = load(changed, declared())
    assert problems == []
    assert loaded is not None
    assert [str(n.management) for n in nodes(loaded)][-1] == "10.1.2.253"


def test_a_cluster_without_a_scheduler_may_have_heads_only() -> None:
    changed = description()
    del changed["scheduler"]
    changed["nodes"] = [{**changed["nodes"][1]}]
    loaded, problems = load(changed, declared())
    assert problems == []
    assert loaded is not None


def test_cpu_lists_are_stored_as_linux_writes_them() -> None:
    changed = description()
    changed["hardware"]["hgx"]["housekeeping_cpus"] = "24,0,16,8"
    loaded, _ = load(changed, declared())
    assert loaded is not None
    assert loaded.hardware["hgx"].housekeeping_cpus == "0,8,16,24"


def test_a_field_that_cannot_be_read_hides_no_other_problem() -> None:
    changed = description()
    changed["nodes"][0]["management"] = "10.0.0.300"
    changed["nodes"][2]["management"] = "fd00:9::1"
    changed["hardware"]["hgx"]["housekeeping_cpus"] = "900"
    changed["os"]["release"] = 13
    changed["extra"] = 1
    loaded, problems = load(changed, declared())
    assert loaded is None
    assert {problem.path for problem in problems} == {
        ("nodes", 0, "management"),
        ("nodes", 2, "management"),
        ("hardware", "hgx", "housekeeping_cpus"),
        ("os", "release"),
        ("extra",),
    }
