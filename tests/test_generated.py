"""Every generated file is current: ``make generate`` would change nothing."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from scripts.generate.documents import GENERATORS, ROOT, obsolete, wanted, write_changed

AGAIN = "out of date. Run `make generate`, then read `git diff`"


@cache
def generated() -> dict[str, bytes]:
    return wanted()


@pytest.mark.parametrize("number", range(len(GENERATORS)))
def test_generated_files_are_current(number: int) -> None:
    for name, content in GENERATORS[number]().items():
        path = ROOT / name
        assert path.is_file(), f"{name}: {AGAIN}"
        # Compared as text: a failure shows the lines that differ.
        assert path.read_bytes().decode() == content.decode(), f"{name}: {AGAIN}"


def test_no_generated_file_is_left_over() -> None:
    assert obsolete(generated()) == [], AGAIN


def test_what_is_missing_or_stale_is_written_and_nothing_else(tmp_path: Path) -> None:
    files = {"docs/new.md": b"new\n", "docs/stale.md": b"new\n", "docs/current.md": b"same\n"}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/stale.md").write_text("old\n")
    (tmp_path / "docs/current.md").write_text("same\n")
    before = (tmp_path / "docs/current.md").stat().st_mtime_ns
    assert write_changed(files, tmp_path) == ["docs/new.md", "docs/stale.md"]
    assert (tmp_path / "docs/stale.md").read_text() == "new\n"
    assert (tmp_path / "docs/current.md").stat().st_mtime_ns == before
    assert write_changed(files, tmp_path) == []


def test_a_file_that_no_generator_writes_any_more_is_found(tmp_path: Path) -> None:
    golden = tmp_path / "tests/golden/prod/head1"
    golden.mkdir(parents=True)
    (golden / "plan.json").write_text("{}")
    (golden / "old.conf").write_text("")
    files = {"tests/golden/prod/head1/plan.json": b"{}"}
    assert obsolete(files, tmp_path) == ["tests/golden/prod/head1/old.conf"]
