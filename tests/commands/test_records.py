"""Saved records that do not match the inventory: the messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Cluster, ended, refused


def saved_as(cluster: Cluster, **names: str) -> None:
    """Save what the nodes say, under other names."""
    cluster.save("now.json")
    document = json.loads(Path("now.json").read_text())
    document["nodes"] = {names.get(name, name): got for name, got in document["nodes"].items()}
    Path("now.json").write_text(json.dumps(document))


def test_nodes_that_the_inventory_lacks_are_named(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    saved_as(cluster, worker7="wrker7", worker8="wrker8")
    assert ended("check", "inventory.py", "--records", "now.json") == 1
    said = capsys.readouterr()
    assert said.err == "now.json has records of wrker[7-8], which the inventory does not contain\n"
    assert "not in now.json" in said.out
    saved_as(cluster)
    assert ended("check", "inventory.py", "--records", "now.json") == 0
    assert capsys.readouterr().err == ""


def test_records_of_another_cluster_are_refused(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    saved_as(cluster, head1="h1", **{f"worker{n}": f"w{n}" for n in range(1, 9)})
    assert refused(capsys, "check", "inventory.py", "--records", "now.json") == (
        "ERROR now.json has records of h1,w[1-8], which the inventory does not contain\n"
        "  expected  records of head1,worker[1-8]\n"
    )
