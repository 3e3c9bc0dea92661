"""Generates lockstep/catalog/checks.json: the names of all readings and rules."""

from __future__ import annotations

import inspect
import json
import re

from lockstep.checks.catalogue import all_rules, families
from lockstep.checks.engine import REACHABLE
from lockstep.checks.rule import Rule
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.node.readers.collect import OF_ROLES, READERS

FILE = "lockstep/catalog/checks.json"


TAKEN = {name for _, names, *_ in READERS for name in names}


def problems() -> list[str]:
    """Return an error text for each reading that a rule names but no reader takes."""
    return [
        f"{family.__name__.replace('.', '/')}.py: rule {rule.id}: no reader takes the reading "
        f"{name!r}. Correct the name, or add the reading to READERS in "
        "lockstep/node/readers/collect.py"
        for family in families()
        for rule in family.RULES
        for name in (rule.reading, rule.look.devices, rule.expected.default)
        if name is not None and name not in TAKEN and not _covers_several(rule, name)
    ]


def _covers_several(rule: Rule, name: str) -> bool:
    """Return whether this name in a rule stands for several readings or for none."""
    # node.reachable has no reading, and no reader takes fingerprints. A rule about several readings
    # names their common prefix.
    several = rule.look.items is not None and any(one.startswith(f"{name}.") for one in TAKEN)
    hashed = rule.id.startswith(FAMILY)
    return hashed or rule.id == REACHABLE or (several and name == rule.reading)


def text() -> str:
    """Return the content of the file."""
    document = {
        "readings": sorted(TAKEN),
        "asked_by_name": sorted(
            name
            for reader, names, *_ in READERS
            if OF_ROLES & set(names) or re.search(r"request(\[|\.get\()", inspect.getsource(reader))
            for name in names
        ),
        "rules": {rule.id: rule.kind.value for rule in all_rules()},
    }
    return json.dumps(document, indent=1) + "\n"


def files() -> dict[str, bytes]:
    """Return the file with the names that a description may use."""
    return {FILE: text().encode("utf-8")}
