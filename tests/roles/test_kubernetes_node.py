"""Swap is turned off where a node has some, and nothing is done where it has none."""

from pathlib import Path

import pytest

from lockstep.roles.operations.kubernetes_node import swap_off
from tests.roles.local import noting, read_below, run

HEADER = "Filename\tType\tSize\tUsed\tPriority\n"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the calls of a swapoff that changes nothing."""
    return noting("swapoff", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("areas", "said"),
    [("", None), ("/dev/sda2 partition 1048572 0 -2\n", "--all\n")],
    ids=["no swap", "a partition"],
)
def test_swap_is_turned_off_where_there_is_some(
    areas: str, said: str | None, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    (root / "proc/swaps").write_text(HEADER + areas)
    read_below(monkeypatch, root)
    done = run(swap_off)
    assert done.succeeded, done.output
    assert (calls.read_text() if calls.exists() else None) == said
