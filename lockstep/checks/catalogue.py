"""All rules: the ``RULES`` of every module of ``lockstep.checks.rules``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from lockstep.checks import rules
from lockstep.checks.rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, by id."""
    families = [module.name for module in pkgutil.iter_modules(rules.__path__)]
    found: list[Rule] = [
        rule
        for name in families
        if not name.startswith("_")
        for rule in importlib.import_module(f"{rules.__name__}.{name}").RULES
    ]
    return tuple(sorted(found, key=lambda rule: rule.id))
