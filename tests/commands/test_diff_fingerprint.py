"""``lockstep diff``: fingerprints of two nodes, and of one node at two times."""

from __future__ import annotations

import pytest

from lockstep.node.fingerprint.entry import Fields, Secret
from lockstep.when import HOUR_S
from tests.checks import recorded
from tests.checks.recorded_fingerprint import objects
from tests.commands.conftest import Cluster, ended
from tests.commands.test_check_fingerprint import Nodes
from tests.commands.test_check_fingerprint import nodes as nodes


def user(nodes: Nodes, node: str, name: str, fields: Fields) -> None:
    """Have a node another user, or another one of that name."""
    address = recorded.consistent().plan.nodes[node].address
    nodes.changed[node] = {"user": {**objects(node, address)["user"], name: fields}}


def diff(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    ended("diff", *words)
    return capsys.readouterr().out


TWO = ("inventory.py", "worker1", "worker2")


def test_equal_nodes_with_their_own_names_are_asked_once(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "worker1 and worker2: no differences" in diff(capsys, *TWO)
    assert nodes.asked == []


def test_objects_of_two_nodes_are_shown_with_both_values(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    user(nodes, "worker2", "eve", {"uid": "7"})
    nodes.changed["worker2"]["file"] = {"plain": {"mode": "0600", "content": "a\nc\n"}}
    out = diff(capsys, *TWO)
    assert "fingerprint.user eve\n  worker1  absent\n  worker2  uid 7\n" in out
    assert (
        "fingerprint.file plain\n"
        "  worker1  content: b; mode 0644\n"
        "           + b\n"
        "  worker2  content: c; mode 0600\n"
        "           + c\n"
    ) in out
    assert "fingerprint.file own\n  worker1  present\n  worker2  absent\n" in out
    (question,) = nodes.asked
    assert set(question) == {"worker1", "worker2"}


def test_secret_values_are_never_shown(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    user(nodes, "worker2", "key", {"mode": "0600", "content": Secret("another")})
    out = diff(capsys, *TWO)
    assert "fingerprint.user key\n  worker1  content " in out
    assert "another" not in out


def test_what_runs_otherwise_on_both_is_no_difference(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"a: nice": {"running": "5", "configured": "0"}}
    # More objects than buckets: some share the one of the first.
    both = {**one, **{f"b{n}: nice": {"running": "5", "configured": "0"} for n in range(16)}}
    nodes.changed = {"worker1": {"running": one}, "worker2": {"running": one}}
    assert "no differences" in diff(capsys, *TWO)
    assert nodes.asked == []
    nodes.changed["worker2"] = {"running": both}
    out = diff(capsys, *TWO)
    assert "fingerprint.running b0: nice\n  worker1  absent\n" in out
    assert "a: nice" not in out


def test_two_times_name_the_domains(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    ended("check", "inventory.py")
    nodes.now += HOUR_S
    user(nodes, "worker3", "eve", {"uid": "7"})
    nodes.changed["worker3"]["user"]["own"] = {"content": "name worker3\naddress fd00:1::999\n"}
    ended("check", "inventory.py")
    out = diff(capsys, "inventory.py", "worker3", "--before", "1h")
    assert "fingerprint.user\n" in out
    assert "UTC  3 objects\n" in out
    assert "UTC  4 objects; other hashes: 1 of 4 parts, own\n" in out
    assert "fd00:1::999" not in out
    assert ": 1 difference" in out


def test_two_files_of_records_name_the_domains(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ("check", "inventory.py", "--no-history", "--save-records")
    ended(*before, "before.json")
    user(nodes, "worker3", "eve", {"uid": "7"})
    ended(*before, "after.json")
    out = diff(capsys, "before.json", "after.json")
    assert "worker3\n-------\nfingerprint.user\n  before.json  3 objects\n" in out
    assert "before.json and after.json, 9 nodes: 1 difference. Exit 1.\n" in out


def test_a_side_without_a_fingerprint_is_named(
    nodes: Nodes, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.save("before.json")
    ended("check", "inventory.py", "--no-history", "--save-records", "after.json")
    out = diff(capsys, "before.json", "after.json")
    assert "fingerprints were not compared: worker2 in before.json has none" in out
    assert "9 nodes: no differences" in out
