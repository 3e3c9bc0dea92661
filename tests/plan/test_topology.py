"""Slurm's topologies: NVLink domains and leaf switches, in topology.yaml or topology.conf."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan
from lockstep.plan.topology import Topologies
from lockstep.roles import declared
from lockstep.spec import load
from tests.spec.racks import description

yaml: Any = pytest.importorskip("yaml")

YOUNG, OLD = "25.11.2-1", "24.11.5-4"
YAML, CONF, SLURM = (
    f"/etc/slurm/{name}" for name in ("topology.yaml", "topology.conf", "slurm.conf")
)
KEYS = {
    # topology.yaml(5) of Slurm 25.05: what a topology, a block and a switch may have.
    *("topology", "cluster_default", "block", "tree", "flat"),
    *("block_sizes", "blocks", "nodes", "switches", "switch", "children"),
}
Change = Callable[[dict[str, Any]], object]


def planned(version: str, *changes: Change) -> ClusterPlan:
    """Two racks, whose Slurm is locked to a version, after changes of the description."""
    wanted = description()
    wanted["software"]["versions"] = dict.fromkeys(("slurmctld", "slurmdbd", "slurmd"), version)
    for change in changes:
        change(wanted)
    cluster, problems = load(wanted, declared())
    assert problems == []
    assert cluster is not None
    return plan(cluster)


def topologies(cluster: ClusterPlan) -> Topologies:
    assert cluster.slurm is not None
    return cluster.slurm.topologies


def files(cluster: ClusterPlan, node: str = "head1") -> dict[str, str]:
    return {one.path: one.content.decode() for one in managed(cluster.nodes[node], None)}


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def partition_lines(cluster: ClusterPlan) -> dict[str, str]:
    """Partition -> the topology that slurm.conf gives it."""
    found = [line for line in files(cluster)[SLURM].splitlines() if "PartitionName=" in line]
    rows = [dict(word.split("=", 1) for word in line.split()) for line in found]
    return {row["PartitionName"]: row.get("Topology", "") for row in rows}


def plain_workers(wanted: dict[str, Any]) -> None:
    """Add four workers without NVLink between nodes, behind two leaf switches."""
    for number, switch in enumerate(("leaf1", "leaf2")):
        wanted["nodes"].append(
            {
                "name": f"c[{2 * number + 1}-{2 * number + 2}]",
                "role": "worker",
                "hardware": "head",
                "management": f"fd00:1::4{number}1",
                "leaf_switch": switch,
            }
        )


def only_plain_workers(wanted: dict[str, Any]) -> None:
    plain_workers(wanted)
    wanted["nodes"] = [one for one in wanted["nodes"] if one["hardware"] == "head"]
    del wanted["software"]["nvidia"]


def half_known(wanted: dict[str, Any]) -> None:
    only_plain_workers(wanted)
    del wanted["nodes"][1]["leaf_switch"]


def partitions(**nodes: str) -> Change:
    rows = [{"name": name, "nodes": those} for name, those in nodes.items()]
    return lambda wanted: wanted["scheduler"].update(partitions=rows)


def keys(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield name
                yield from keys(inner)
        case list():
            for inner in value:
                yield from keys(inner)


def test_racks_are_blocks_of_topology_yaml() -> None:
    cluster = planned(YOUNG)
    found = files(cluster)
    assert yaml.safe_load(found[YAML]) == [
        {
            "topology": "nvlink",
            "cluster_default": True,
            "block": {
                "block_sizes": [18],
                "blocks": [
                    {"block": "rack1", "nodes": "a[01-18]"},
                    {"block": "rack2", "nodes": "b[01-18]"},
                ],
            },
        }
    ]
    assert CONF not in found, "Slurm would ignore it beside topology.yaml"
    assert "TopologyPlugin" not in found[SLURM], "topology.yaml decides"
    assert partition_lines(cluster) == {"batch": "nvlink"}


def test_each_partition_has_the_topology_of_its_nodes() -> None:
    cluster = planned(
        YOUNG, plain_workers, partitions(racks="a[01-18],b01", plain="c[1-4]", every="a01,c1")
    )
    found = yaml.safe_load(files(cluster)[YAML])
    assert [(one["topology"], one["cluster_default"]) for one in found] == [
        ("flat", True),  # no topology has all workers
        ("nvlink", False),
        ("fabric", False),
    ]
    assert found[0]["flat"] is True
    assert found[2]["tree"]["switches"] == [
        {"switch": "spine", "children": "leaf1,leaf2"},
        {"switch": "leaf1", "nodes": "c[1-2]"},
        {"switch": "leaf2", "nodes": "c[3-4]"},
    ]
    assert partition_lines(cluster) == {"racks": "nvlink", "plain": "fabric", "every": "flat"}
    assert not [note for note in cluster.notes if "topology" in note]


def test_a_rack_behind_switches_is_a_block_first() -> None:
    def switches(wanted: dict[str, Any]) -> None:
        for group in wanted["nodes"][1:]:
            group["leaf_switch"] = "leaf1"

    cluster = planned(YOUNG, switches)
    assert [one.name for one in topologies(cluster).every] == ["nvlink", "fabric"]
    assert partition_lines(cluster) == {"batch": "nvlink"}
    (tree,) = yaml.safe_load(files(cluster)[YAML])[1]["tree"]["switches"]
    assert tree == {"switch": "leaf1", "nodes": "a[01-18],b[01-18]"}, "one switch has no root"


@pytest.mark.parametrize("changes", [(), (plain_workers,), (only_plain_workers,)])
def test_topology_yaml_has_only_keys_of_its_manual_page(changes: tuple[Change, ...]) -> None:
    found = yaml.safe_load(files(planned(YOUNG, *changes))[YAML])
    assert set(keys(found)) <= KEYS
    for one in found:
        assert next(iter(one)) == "topology", "it must be the first attribute"
        assert len({"block", "tree", "flat"} & one.keys()) == 1
    assert [one["cluster_default"] for one in found].count(True) == 1


def test_names_that_yaml_reads_as_something_else_stay_names() -> None:
    def odd(wanted: dict[str, Any]) -> None:
        wanted["nodes"][1]["nvlink_domain"] = "1"
        wanted["nodes"][2]["nvlink_domain"] = "on"

    (one,) = yaml.safe_load(files(planned(YOUNG, odd))[YAML])
    assert [block["block"] for block in one["block"]["blocks"]] == ["1", "on"]


@pytest.mark.parametrize(
    ("version", "file"),
    [("24.05.2-1", CONF), (OLD, CONF), ("25.05.0-1", YAML), (YOUNG, YAML), ("git1-1", CONF)],
)
def test_the_oldest_slurm_decides_about_the_file(version: str, file: str) -> None:
    assert {YAML, CONF} & files(planned(version)).keys() == {file}


def test_leaf_switches_of_an_older_slurm_are_in_topology_conf() -> None:
    cluster = planned(OLD, only_plain_workers)
    found = files(cluster)
    assert lines(found[CONF]) == [
        "SwitchName=leaf1 Nodes=c[1-2]",
        "SwitchName=leaf2 Nodes=c[3-4]",
        "SwitchName=spine Switches=leaf1,leaf2",
    ]
    assert "\nTopologyPlugin=topology/tree\n" in found[SLURM]
    assert partition_lines(cluster) == {"batch": ""}


def without(wanted: dict[str, Any]) -> None:
    """Have neither NVLink domains nor leaf switches."""
    only_plain_workers(wanted)
    for group in wanted["nodes"]:
        group.pop("leaf_switch", None)


def test_without_domains_and_switches_an_older_slurm_has_no_topology() -> None:
    found = files(planned(OLD, without))
    assert not {YAML, CONF} & found.keys()
    assert "opology" not in found[SLURM]


def test_without_domains_and_switches_the_file_of_an_earlier_description_is_replaced() -> None:
    cluster = planned(YOUNG, without)
    found = files(cluster)
    assert files(planned(YOUNG)).keys() >= {YAML}, "an earlier deploy had written it"
    assert yaml.safe_load(found[YAML]) == [
        {"topology": "flat", "cluster_default": True, "flat": True}
    ]
    assert CONF not in found
    assert partition_lines(cluster) == {"batch": "flat"}


@pytest.mark.parametrize(
    ("version", "change", "note"),
    [
        (
            "23.11.4-1",
            lambda wanted: None,
            "slurm.conf has no topology of NVLink domains: Slurm 23.11 on debian_13 is older than "
            "24.05",
        ),
        (
            OLD,
            plain_workers,
            "slurm.conf has no topology of NVLink domains: topology/block cannot hold the workers "
            "without a domain: c[1-4]; Slurm 25.05 and later has several topologies",
        ),
        (
            OLD,
            lambda wanted: wanted["nodes"][1].update(leaf_switch="leaf1"),
            "slurm.conf has no topology of leaf switches: Slurm 24.11 on debian_13 has one "
            "topology, and that is the one of NVLink domains; Slurm 25.05 and later has several "
            "topologies",
        ),
        (
            OLD,
            half_known,
            "slurm.conf has no topology of leaf switches: topology/tree cannot hold the workers "
            "without a leaf switch: c[1-2]; Slurm 25.05 and later has several topologies",
        ),
    ],
)
def test_what_an_older_slurm_cannot_be_told_is_noted(
    version: str, change: Change, note: str
) -> None:
    cluster = planned(version, change)
    assert note in cluster.notes
    old_file = files(cluster).get(CONF, "")
    assert ("leaf" in old_file) is False


@pytest.mark.parametrize(
    ("index", "name", "allowed"),
    [
        (0, "leaf1", "leave it out: only workers run jobs"),
        (
            1,
            "spine",
            "another name: Slurm's topology has this one above all leaf switches",
        ),
    ],
)
def test_leaf_switches_that_slurm_could_not_use_are_refused(
    index: int, name: str, allowed: str
) -> None:
    wanted = description()
    wanted["nodes"][index]["leaf_switch"] = name
    (problem,) = load(wanted, declared())[1]
    assert problem.path == ("nodes", index, "leaf_switch")
    assert (problem.value, problem.allowed) == (name, allowed)
