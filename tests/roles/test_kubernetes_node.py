"""Swap is turned off where a node has some, and nothing is done where it has none."""

from pathlib import Path

import pytest

from lockstep.roles.operations.kubernetes_node import swap_off
from tests.roles.local import read_below, run

HEADER = "Filename\tType\tSize\tUsed\tPriority\n"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the calls of a swapoff that changes nothing."""
    program = tmp_path / "bin/swapoff"
    program.parent.mkdir()
    noted = tmp_path / "calls"
    program.write_text(f'#!/bin/sh\necho "$@" >> {noted}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return noted


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
