"""All rules: the ``RULES`` of every module in ``lockstep.checks.rules``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from lockstep.checks import rules
from lockstep.checks.rule import Rule


def families() -> list[ModuleType]:
    """Return the modules that contain rules."""
    return [
        importlib.import_module(f"{rules.__name__}.{module.name}")
        for module in pkgutil.iter_modules(rules.__path__)
        if not module.name.startswith("_")
    ]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, sorted by id."""
    found: list[Rule] = [rule for family in families() for rule in family.RULES]
    return tuple(sorted(found, key=lambda rule: rule.id))
