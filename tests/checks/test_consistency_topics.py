"""The consistency suite has a test for each family of rules, so no rule is left out."""

from __future__ import annotations

import re
from pathlib import Path

from lockstep import consistency
from lockstep.checks.catalogue import all_rules
from lockstep.consistency.plugin import SITE, families_of


def test_every_family_of_rules_has_a_test() -> None:
    files = Path(str(consistency.__file__)).parent.glob("test_*.py")
    tests = [
        name for file in files for name in re.findall(r"^def test_(\w+)", file.read_text(), re.M)
    ]
    assert sorted(tests) == sorted([*families_of(), SITE])


def test_the_families_have_every_rule() -> None:
    found = [rule.id for rules in families_of().values() for rule in rules]
    assert sorted(found) == sorted(rule.id for rule in all_rules())
