"""lockstep/catalog/checks.json, made from probe and rules: `python -m tests.checks.names`."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

from lockstep.catalog import checks
from lockstep.checks.catalogue import all_rules
from lockstep.node.readers.collect import READERS

FILE = Path(checks.__file__).with_suffix(".json")


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


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
