"""``lockstep record`` on recorded nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.fleet.gather import GatherError
from tests.checks import recorded
from tests.commands.conftest import Cluster, ended, refused


def test_it_says_what_was_kept_and_what_was_not_read(
    cluster: Cluster, history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.context = recorded.unreachable(cluster.context, "worker2", "worker5")
    assert ended("record", "inventory.py", "--limit", "worker") == 2
    said = capsys.readouterr()
    lost, *unread, summary = said.out.splitlines()
    assert lost == "worker[2,5]: no record: ssh: Could not connect (timed out)"
    assert "worker[1,3-4,6-8]: not read: slurm.nodes: slurmctld: not installed" in unread
    assert summary == f"6 of 8 records saved, 2026-11-20 18:40 UTC: {history}"
    assert said.err == "reading 8 nodes ...\nread 6 of 8 nodes in 0 s, 2 failed\n"
    assert cluster.asked == frozenset(f"worker{number}" for number in range(1, 9))


def test_one_node_is_read_alone(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("record", "inventory.py", "--limit", "worker3") == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1].startswith("1 of 1 records saved")
    assert said.err == "reading 1 node ...\nread 1 of 1 node in 0 s\n"


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("worker33", "inventory.py: unknown node 'worker33'\n  expected  did you mean worker3"),
        ("worker[1-", "--limit 'worker[1-': "),
    ],
)
def test_what_does_not_exist_ends_with_3(
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    limit: str,
    message: str,
) -> None:
    said = refused(capsys, "record", "inventory.py", "--limit", limit)
    assert said.startswith(f"ERROR {message}")


def test_a_reading_that_fails_as_a_whole_ends_with_2(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise GatherError("no pyinfra")

    monkeypatch.setattr("lockstep.reading.gather", fails)
    assert ended("record", "inventory.py") == 2
    assert capsys.readouterr().err == (
        "reading 9 nodes ...\nread 0 of 9 nodes in 0 s\nERROR no node was read: no pyinfra\n"
    )
