"""Every generated file is current: ``make generate`` would change nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep.checks.catalogue import all_rules, families
from lockstep.checks.rule import Expected, Rule
from scripts.generate import check_names, packages_page
from scripts.generate.__main__ import main
from scripts.generate.documents import GENERATORS, ROOT, Generator, obsolete, wanted, write_changed

AGAIN = "out of date. Run `make generate`, then read `git diff`"


LONG = (packages_page.files,)
"""Makes the plans of a cluster for each field of the description: 23 CPU seconds."""


@cache
def generated() -> dict[str, bytes]:
    return wanted(generator for generator in GENERATORS if generator not in LONG)


@pytest.mark.parametrize(
    "generator",
    [
        pytest.param(one, id=one.__module__, marks=[pytest.mark.nested] if one in LONG else [])
        for one in GENERATORS
    ],
)
def test_generated_files_are_current(generator: Generator) -> None:
    for name, content in generator().items():
        path = ROOT / name
        assert path.is_file(), f"{name}: {AGAIN}"
        # Compared as text: a failure shows the lines that differ.
        shown = (
            path.read_bytes().decode(errors="backslashreplace"),
            content.decode(errors="backslashreplace"),
        )
        assert shown[0] == shown[1], f"{name}: {AGAIN}"


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


RULE = all_rules()[0]


@pytest.mark.parametrize(
    "rule",
    [
        replace(RULE, reading="gpu.power.enforced"),
        replace(RULE, look=replace(RULE.look, devices="gpu.power.enforced")),
        replace(RULE, expected=Expected(default="gpu.power.enforced")),
    ],
    ids=["reading", "devices", "default"],
)
def test_a_rule_with_an_unknown_reading_is_refused(
    monkeypatch: pytest.MonkeyPatch, rule: Rule
) -> None:
    family = SimpleNamespace(__name__="lockstep.checks.rules.new", RULES=(rule,))
    monkeypatch.setattr(check_names, "families", lambda: [*families(), family])
    written: list[str] = []
    monkeypatch.setattr("scripts.generate.__main__.write_changed", written.append)
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == (
        f"lockstep/checks/rules/new.py: rule {rule.id}: no reader takes the reading "
        "'gpu.power.enforced'. Correct the name, or add the reading to READERS in "
        "lockstep/node/readers/collect.py"
    )
    assert written == []


def test_every_rule_names_readings_that_a_reader_takes() -> None:
    assert check_names.problems() == []
