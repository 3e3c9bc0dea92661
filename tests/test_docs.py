"""Pages that list things list all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lockstep.__main__ import all_commands
from lockstep.checks.catalogue import all_rules
from lockstep.forms.text import whole
from lockstep.report import Finding, Report

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SAMPLE = re.compile(
    r"```text\n((?P<severity>ERROR|WARNING) +(?P<rule>\S+)  (?P<node>\S+) (?P<device>\S+)\n"
    r"  reading +(?P<field>.+)\n"
    r"  found +(?P<found>.+)\n"
    r"  expected +(?P<expected>.+?) +\(\w+: (?P<reference>.+)\)\n"
    r"(?:  since +(?P<since>.+) \((?P<checks>\d+) checks\)\n)?"
    r"  repair +(?P<repair>.+)\n"
    r"\n.+\n(?P<nodes>\d+) nodes, .+\n)```"
)
"""A report with one finding, as `lockstep check` prints it."""


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    text = (ROOT / "docs/dependencies.md").read_text()
    rows = {
        name.strip()
        for line in text.splitlines()
        if line.startswith("|")
        for name in line.split("|")[1].split(",")
    }
    assert {re.split(r"[<>=,]", requirement)[0] for requirement in named} <= rows


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_readme_names_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:[$`] ?)make ([a-z-]+)", readme)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in set(re.findall(r"\b(?:inventories|deploys|docs|scripts)/[\w./-]+\.\w+", readme)):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_names_only_options_that_exist(page: Path) -> None:
    """In a sentence, too: tests/test_documented.py tries blocks of commands only."""
    known = all_commands()
    for said in re.findall(r"`lockstep ([^`]+)`", page.read_text()):
        name, *words = said.split()
        if name in known and known[name].program is None:
            options = {one for argument in known[name].arguments for one in argument.names}
            used = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert used <= options, said


RULES = tuple(rule.id for rule in all_rules())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_reports_that_a_page_shows_count_todays_rules(page: Path) -> None:
    shown = set(re.findall(r"nodes, (\d+) rules", page.read_text()))
    assert shown <= {str(len(RULES))}


@pytest.mark.parametrize("page", ["README.md", "docs/checks.md"])
def test_sample_reports_are_what_the_check_prints(page: str) -> None:
    sample = SAMPLE.search((ROOT / page).read_text())
    assert sample is not None
    told: dict[str, Any] = sample.groupdict(default="")
    nodes = tuple(f"node{number}" for number in range(int(told.pop("nodes"))))
    severity, checks = told.pop("severity").lower(), int(told.pop("checks") or 0)
    finding = Finding(**told, severity=severity, checks=checks)
    report = Report(nodes, RULES, [finding])
    assert sample[1] == whole(report)


def test_the_first_tour_shows_the_rule_of_the_example_that_lockstep_init_writes() -> None:
    page = (ROOT / "docs/site.md").read_text()
    example = (ROOT / "lockstep/templates/site/inventories/prod.py").read_text()
    rule = re.search(r'"checks": \{\n.+?\n +\],\n +\},\n', page, re.DOTALL)
    assert rule is not None
    assert [line.strip() for line in rule[0].splitlines()] == [
        line.strip()
        for line in example[example.index('"checks": {') :].splitlines()[: rule[0].count("\n")]
    ]
