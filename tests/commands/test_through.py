"""``lockstep check --through``: valid values and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import INVENTORY, Cluster, ended, refused


@pytest.mark.parametrize(
    ("words", "through"),
    [
        ((), ""),
        (("--through", "slurm"), "--through-slurm="),
        (("--through", "slurm", "--no-history"), "--through-slurm="),
        (("--through", "slurm", "--job", "1042_7"), "--through-slurm=1042_7"),
        (("--through", "clush"), "--through-clush"),
    ],
)
def test_the_way_is_passed_on(cluster: Cluster, words: tuple[str, ...], through: str) -> None:
    assert ended("check", "inventory.py", *words) == 0
    assert cluster.through == through


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--job", "1042"), "--job 1042 needs --through slurm\n"),
        (
            ("--through", "slurm", "--job", "1;2"),
            "--job '1;2': malformed job id\n  expected  an id such as 1042 or 1042_7\n",
        ),
        (
            ("--through", "slurm", "--records", "r.json"),
            "--through slurm cannot be used with --records",
        ),
        (
            ("--through", "clush", "--records", "r.json"),
            "--through clush cannot be used with --records",
        ),
        (("--through", "clush", "--job", "7"), "--job 7 needs --through slurm\n"),
        *(
            (("--slow", *others), "--slow needs fingerprints of live nodes: leave out")
            for others in (("--no-fingerprint",), ("--records", "r.json"))
        ),
    ],
)
def test_what_cannot_be_is_refused(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert refused(capsys, "check", "inventory.py", *words).startswith(f"ERROR {message}")


@pytest.mark.parametrize("way", ["slurm", "clush"])
def test_without_a_scheduler_there_is_no_other_way(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    head = '{**DESCRIPTION["nodes"][0], "runs": ["prometheus"]}'
    changed = f'{{**DESCRIPTION, "software": {{}}, "scheduler": None, "nodes": [{head}]}}'
    Path("inventory.py").write_text(INVENTORY.format(description=changed))
    said = refused(capsys, "check", "inventory.py", "--through", way)
    assert said == f"ERROR --through {way}: cluster recorded has no Slurm controller\n"
