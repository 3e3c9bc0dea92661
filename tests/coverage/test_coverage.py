"""docs/coverage.md is correct and complete."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase

from lockstep.checks.catalogue import all_rules
from lockstep.checks.rules.fingerprint import FAMILY
from scripts.generate.coverage_entries import ENTRIES, OURS, TOPICS
from scripts.generate.coverage_page import LIGHT, NOT_IN_A_LAB, named, page, shown, why_not
from tests.checks.test_mutations import ALL, OF_OTHER_CLUSTERS

RULES = {rule.id for rule in all_rules()}
NAMED = {rule for entry in ENTRIES for rule in entry.rules}
NUMBERS = {"G": 39, "N": 23, "H": 30, "C": 12, "R": 3}


def test_the_catalogue_is_whole_and_in_order() -> None:
    wanted = [f"{letter}{n:02}" for letter in TOPICS for n in range(1, NUMBERS[letter] + 1)]
    assert [entry.id for entry in ENTRIES] == wanted


def test_every_entry_is_covered_or_says_why_not() -> None:
    assert [entry.id for entry in ENTRIES if not entry.rules and not entry.lacks] == []
    assert set() == NAMED - RULES, "no such rules"


def test_every_rule_covers_an_entry_or_has_a_reason_on_the_page() -> None:
    unnamed = RULES - NAMED
    text = page()
    assert [rule for rule in sorted(unnamed) if f"[{rule}](" not in text] == []
    assert [p for p in OURS if not any(fnmatchcase(r, p) for r in unnamed)] == [], "not needed"


def test_every_rule_was_broken_alone() -> None:
    # tests/checks/test_fingerprint.py changes objects of each domain.
    others = {rule for rule in RULES if not rule.startswith(FAMILY)}
    assert {one.rule for one in ALL} | OF_OTHER_CLUSTERS == others


def test_what_was_not_broken_in_a_lab_has_its_reason() -> None:
    running = frozenset[str]().union(*shown().values())
    silent = [e.id for e in ENTRIES if e.rules and not {*e.rules} & running]
    assert [e.id for e in ENTRIES if e.id in silent and not why_not(e.rules)] == []
    fits = [next((p for p in NOT_IN_A_LAB if fnmatchcase(r, p)), "") for r in RULES - running]
    assert set(NOT_IN_A_LAB) - set(fits) == set(), "reasons for nothing"


def test_a_rule_counts_as_broken_where_a_test_expects_its_finding() -> None:
    module = ast.parse(
        "SETTLING = {('time.offset', 'worker1', '')}\n"
        "def test_it() -> None:\n"
        "    assert 'os.locale' in text\n"
        "    assert named == {('gpu.count', 'worker2', '')}\n"
    )
    assert set(named(module)) == {"gpu.count"}
    assert "node.reachable" in shown()[LIGHT]
