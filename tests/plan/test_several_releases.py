"""Two operating systems in one cluster: each node gets what its own release needs."""

from typing import Any

from lockstep.files import managed
from lockstep.plan import ClusterPlan
from tests.plan.example import planned
from tests.spec.nvidia_example import KEY

REPOSITORY = {"uri": "https://mirror.example.net/x", "suite": "/", "key": KEY}


def mixed(wanted: dict[str, Any]) -> None:
    """Heads and two workers on Debian 13, two workers of the same class on Debian 12."""
    *_, workers = wanted["nodes"]
    workers["name"] = "worker[1-2]"
    older = {"name": "worker[3-4]", "management": "fd00:1::102", "fabric": "fd00:2::102"}
    wanted["nodes"].append({**workers, **older, "release": "debian_12"})
    wanted["software"] = {
        "versions": {"munge": "0.5.15-1", "slurmd": "24.11.5-4"},
        "versions_on": {"debian_12": {"slurmd": "23.11.4-1"}},
    }


CLUSTER: ClusterPlan = planned(mixed)
NEW, OLD = CLUSTER.nodes["worker1"], CLUSTER.nodes["worker3"]


def text(name: str, path: str) -> str:
    files = {one.path: one.content.decode() for one in managed(CLUSTER.nodes[name], None)}
    return files[path]


def test_each_node_has_its_own_release() -> None:
    assert (NEW.release.name, OLD.release.name) == ("debian_13", "debian_12")
    assert CLUSTER.nodes["head1"].release.name == "debian_13"
    assert NEW.to_json()["release"] == "debian_13"


def test_nodes_of_one_class_with_different_releases_share_no_values() -> None:
    assert NEW.kind != OLD.kind
    assert "/etc/locale.conf" in NEW.system.paths()
    assert "/etc/default/locale" in OLD.system.paths()
    assert "leapseclist" in text("worker1", "/etc/chrony/chrony.conf")
    assert "leapsectz" in text("worker3", "/etc/chrony/chrony.conf")


def test_a_release_has_its_own_versions() -> None:
    assert NEW.software.versions == {"munge": "0.5.15-1", "slurmd": "24.11.5-4"}
    assert OLD.software.versions == {"munge": "0.5.15-1", "slurmd": "23.11.4-1"}
    assert "Pin: version 23.11.4-1\n" in text("worker3", "/etc/apt/preferences.d/90-lockstep")


def test_the_older_slurm_decides_for_all() -> None:
    """Slurm 22.05 cannot fetch its files over IPv6: all workers get them."""
    assert not CLUSTER.configless
    assert "/etc/slurm/slurm.conf" in NEW.system.paths()
    assert "enable_configless" not in text("head1", "/etc/slurm/slurm.conf")


def test_jobs_can_ask_for_a_release() -> None:
    lines = [
        line.split()
        for line in text("head1", "/etc/slurm/slurm.conf").splitlines()
        if line.startswith("NodeName=")
    ]
    assert [(line[0], line[-2]) for line in lines] == [
        ("NodeName=worker[1-2]", "Features=hgx,debian_13"),
        ("NodeName=worker[3-4]", "Features=hgx,debian_12"),
    ]


def test_a_repository_is_for_the_nodes_of_its_releases() -> None:
    def change(wanted: dict[str, Any]) -> None:
        mixed(wanted)
        wanted["software"]["repositories"] = [
            {**REPOSITORY, "name": "newer", "releases": ["debian_13"]},
            {**REPOSITORY, "name": "both", "suite": "x/", "releases": ["debian_12", "debian_13"]},
        ]

    nodes = planned(change).nodes
    found = {
        name: [one.name for one in nodes[name].software.repositories]
        for name in ("worker1", "worker3")
    }
    assert found == {"worker1": ["newer", "both"], "worker3": ["both"]}
