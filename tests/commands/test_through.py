"""``lockstep check --through slurm``: what is asked for, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.facts.gather import ThroughSlurm
from tests.commands.conftest import INVENTORY, Cluster, ended, refused


@pytest.mark.parametrize(
    ("words", "through"),
    [
        ((), None),
        (("--through", "slurm"), ThroughSlurm()),
        (("--through", "slurm", "--no-history"), ThroughSlurm()),
        (("--through", "slurm", "--job", "1042_7"), ThroughSlurm("1042_7")),
    ],
)
def test_the_way_is_passed_on(
    cluster: Cluster, words: tuple[str, ...], through: ThroughSlurm | None
) -> None:
    assert ended("check", "inventory.py", *words) == 0
    assert cluster.through == through


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--job", "1042"), "--job 1042 without --through slurm\n"),
        (
            ("--through", "slurm", "--job", "1;2"),
            "--job '1;2'\n  expected  a job's number, such as 1042\n",
        ),
        (("--through", "slurm", "--records", "r.json"), "--through slurm with --records FILE, "),
    ],
)
def test_what_cannot_be_is_refused(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert refused(capsys, "check", "inventory.py", *words).startswith(f"ERROR {message}")


def test_without_a_scheduler_there_is_no_step(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    head = '{**DESCRIPTION["nodes"][0], "runs": ["prometheus"]}'
    changed = f'{{**DESCRIPTION, "software": {{}}, "scheduler": None, "nodes": [{head}]}}'
    Path("inventory.py").write_text(INVENTORY.format(description=changed))
    said = refused(capsys, "check", "inventory.py", "--through", "slurm")
    assert said == "ERROR --through slurm: recorded has no scheduler\n"
