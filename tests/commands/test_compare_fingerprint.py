"""``lockstep compare``: fingerprints of two clusters, each with its own names and addresses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from lockstep.checks.context import Context
from lockstep.fleet.request import Asked
from lockstep.node.fingerprint.entry import Fields, Secret
from lockstep.plan import ClusterPlan
from lockstep.probe.parse import dumps
from lockstep.probe.record import Reading, Record, Taken
from tests.checks import recorded
from tests.checks.recorded_fingerprint import fingerprint, objects
from tests.commands.conftest import ended
from tests.commands.test_compare import another, changed, write
from tests.commands.test_compare import clusters as clusters

TIME = "/etc/time.conf"
NAMED = "server {head} # {name}\nallow {network}\npeer {head}.site 192.0.2.1\n"
"""A file that no role manages; 192.0.2.1 belongs to neither cluster."""


def own_objects(plan: ClusterPlan, node: str) -> dict[str, dict[str, Fields]]:
    """Return what a node has, with the names and addresses of its cluster in it."""
    found = objects(node, plan.nodes[node].address)
    network = str(plan.spec.networks["management"].prefix)
    (head,) = plan.heads[:1]
    text = NAMED.format(head=head, name=plan.spec.name, network=network)
    found["file"][TIME] = {"mode": "0644", "content": text}
    everyone = "".join(f"{one.address} {one.name}\n" for one in plan.nodes.values())
    found["file"]["/etc/everyone"] = {"content": everyone}
    # A large file that a role manages: its content is only a hash, and a rule compares it.
    found["file"]["/etc/hosts"] = {"content": f"99999 bytes, BLAKE2b {hash_of(everyone)}"}
    found["route"][f"main {network} via {plan.nodes[head].address}"] = {"dev": "eth0"}
    found["route"][f"main 10.0.0.0/8 via {plan.nodes[head].address}"] = {"dev": "eth0"}
    found["user"]["root"] = {"password": Secret(f"of {plan.spec.name}")}
    return found


def hash_of(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Live:
    """The nodes of both clusters; it notes what they are asked."""

    def __init__(self, other: Context) -> None:
        self.bases = {"recorded": recorded.consistent(), "beta": other}
        self.changed: dict[str, Callable[[dict[str, dict[str, Fields]]], object]] = {}
        self.asked: list[Mapping[str, Asked]] = []

    def read(
        self,
        plan: ClusterPlan,
        nodes: Collection[str] | None = None,
        *,
        asked: Mapping[str, Asked] | None = None,
        tell: Callable[[bool], None] = lambda failed: None,
        **how: Any,
    ) -> Reading:
        """Stand in for ``gather``."""
        if asked:
            self.asked.append(asked)
        base, found = self.bases[plan.spec.name], dict[str, Any]()
        for name in plan.nodes if nodes is None else nodes:
            record = base.reading[name]
            assert isinstance(record, Record)
            has = own_objects(plan, name)
            if name in self.changed:
                self.changed[name](has)
            key = plan.spec.name.encode()
            wanted = (asked or {}).get(name, ())
            readings = fingerprint(name, plan.nodes[name].address, has, wanted, key)
            taken = {one: Taken(value=value) for one, value in readings.items()}
            taken = taken if how.get("fingerprint") or asked else {}
            update = {"readings": {**record.readings, **taken}}
            found[name] = record.model_copy(update=update)
        return found


@pytest.fixture
def live(clusters: Context, monkeypatch: pytest.MonkeyPatch) -> Live:
    made = Live(another())
    monkeypatch.setattr("lockstep.reading.gather", made.read)
    return made


def findings(rule: str = "") -> list[dict[str, Any]]:
    """Return the findings of the last comparison, those of one rule if it is given."""
    found = json.loads(Path("report.json").read_text())["report"]["findings"]
    return [one for one in found if rule in ("", one["rule"])]


def statuses() -> set[str]:
    return {one["status"] for one in findings()}


def compared(*words: str) -> set[tuple[str, str, str]]:
    """Compare fingerprints, and return rule, node and object of each finding."""
    rules = () if "--no-fingerprint" in words else ("--rule", "fingerprint.*")
    ended("compare", "alpha.py", "beta.py", "--json", "report.json", *rules, *words)
    return {(one["rule"], one["node"], one["device"]) for one in findings()}


def test_names_addresses_and_secrets_of_each_cluster_are_no_difference(live: Live) -> None:
    assert compared() == set()
    asked = [len(question) for question in live.asked]
    assert asked == [2, 2], "a head and a worker of each cluster"


def test_a_node_that_differs_from_both_is_named(live: Live) -> None:
    live.changed["b-worker03"] = lambda has: has["user"].pop("plain")
    assert compared() == {("fingerprint.user", "beta:b-worker03", "plain")}


@pytest.mark.parametrize(
    ("old", "new"),
    [("server", "pool"), ("192.0.2.1", "192.0.2.2"), ("b-head.site", "b-worker01")],
)
def test_a_cluster_that_differs_in_more_than_its_names_is_named(
    live: Live, old: str, new: str
) -> None:
    def change(has: dict[str, dict[str, Fields]]) -> None:
        has["file"][TIME] = {
            "mode": "0644",
            "content": has["file"][TIME]["content"].replace(old, new),
        }

    for number in range(1, 10):
        live.changed[f"b-worker{number:02}"] = change
    (finding,) = compared()
    assert finding[0::2] == ("fingerprint.file", TIME)
    assert "beta:b-worker0[1-9]" in finding[1] or "beta:b-worker[01-09]" in finding[1]


@pytest.mark.parametrize("node", ["worker3", "b-worker03"])
def test_one_node_with_a_wrong_name_of_its_own_cluster_is_named(live: Live, node: str) -> None:
    def change(has: dict[str, dict[str, Fields]]) -> None:
        text = has["file"][TIME]["content"]
        new = text.replace("server head1", "server worker8").replace(
            "server b-head", "server b-worker08"
        )
        assert new != text
        has["file"][TIME] = {"mode": "0644", "content": new}

    live.changed[node] = change
    label = "beta" if node.startswith("b-") else "recorded"
    assert compared() == {("fingerprint.file", f"{label}:{node}", TIME)}


def test_a_route_with_a_name_of_its_own_is_missing(live: Live) -> None:
    route = "main fd00:2::/64 via fd00:2::1"
    live.changed["b-worker03"] = lambda has: has["route"].pop(route)
    assert compared() == {("fingerprint.route", "beta:b-worker03", route)}
    for number in range(1, 10):
        live.changed[f"b-worker{number:02}"] = live.changed["b-worker03"]
    assert {finding[2] for finding in compared()} == {"main fd00:1::/64 via fd00:1::1"}


def test_a_second_route_of_one_cluster_is_no_other_name_of_the_first(live: Live) -> None:
    second = "main fd00:2::/64 via fd00:2::2"
    for number in range(1, 10):
        name = f"b-worker{number:02}"
        live.changed[name] = lambda has: has["route"].update({second: {"dev": "eth0"}})
    assert {finding[0] for finding in compared()} == {"fingerprint.route"}


def test_secrets_are_compared_within_a_cluster(live: Live) -> None:
    live.changed["worker2"] = lambda has: has["user"].update(root={"password": Secret("another")})
    assert compared() == {("fingerprint.user", "recorded:worker2", "root")}


def test_classes_that_are_different_machines_are_compared_within_their_cluster(
    clusters: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(description: dict[str, Any]) -> None:
        description["hardware"]["hgx-h200"]["memory_mib"] = 65000

    write(changed(other))
    live = Live(another())
    monkeypatch.setattr("lockstep.reading.gather", live.read)
    for number in range(1, 10):
        live.changed[f"b-worker{number:02}"] = lambda has: has["user"].pop("plain")
    assert compared() == set()


def test_a_comparison_without_fingerprints_takes_none(live: Live) -> None:
    live.changed["b-worker03"] = lambda has: has["user"].pop("plain")
    assert compared("--no-fingerprint") == set()
    assert live.asked == []


def test_records_do_not_tell_which_objects_differ(live: Live) -> None:
    for name, path in (("recorded", "a.json"), ("beta", "b.json")):
        plan = live.bases[name].plan
        Path(path).write_text(dumps(live.read(plan, fingerprint=True)))
    found = compared("--records", "a.json", "b.json")
    assert {finding[0] for finding in found} == {"fingerprint.file", "fingerprint.route"}
    assert {finding[2] for finding in found} == {""}
    assert statuses() == {"unknown"}, "names of the clusters may be all that differs"
    assert compared("--records", "a.json", "b.json", "--no-fingerprint") == set()


def test_a_difference_of_hashes_within_a_cluster_is_one(live: Live) -> None:
    """Between saved records, too; the objects are not known."""
    live.changed["b-worker03"] = lambda has: has["user"].pop("plain")
    for name, path in (("recorded", "a.json"), ("beta", "b.json")):
        Path(path).write_text(dumps(live.read(live.bases[name].plan, fingerprint=True)))
    compared("--records", "a.json", "b.json")
    assert {one["node"]: one["status"] for one in findings("fingerprint.user")} == {
        "beta:b-worker03": "differs"
    }
