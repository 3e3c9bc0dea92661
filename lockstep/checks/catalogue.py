"""The rules: every module of ``lockstep.checks.rules`` that has a ``RULE``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from lockstep.checks import rules
from lockstep.checks.rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, by id."""
    names = [module.name for module in pkgutil.iter_modules(rules.__path__)]
    found: list[Rule] = [
        importlib.import_module(f"{rules.__name__}.{name}").RULE
        for name in names
        if not name.startswith("_")
    ]
    return tuple(sorted(found, key=lambda rule: rule.id))
