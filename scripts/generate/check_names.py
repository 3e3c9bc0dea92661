"""lockstep/catalog/checks.json: the names of all readings and rules."""

from __future__ import annotations

import inspect
import json
import re

from lockstep.checks.catalogue import all_rules
from lockstep.node.readers.collect import READERS

FILE = "lockstep/catalog/checks.json"


def text() -> str:
    """Return the file as it should be."""
    document = {
        "readings": sorted(name for _, names, *_ in READERS for name in names),
        "asked_by_name": sorted(
            name
            for reader, names, *_ in READERS
            if re.search(r"request(\[|\.get\()", inspect.getsource(reader))
            for name in names
        ),
        "rules": {rule.id: rule.kind.value for rule in all_rules()},
    }
    return json.dumps(document, indent=1) + "\n"


def files() -> dict[str, bytes]:
    """Return the names that a description may use."""
    return {FILE: text().encode("utf-8")}
