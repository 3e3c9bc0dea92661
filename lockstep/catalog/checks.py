"""Names of all readings and rules, used to validate the names in a description.

`make generate` writes checks.json; a test ensures that it is current.
"""

from __future__ import annotations

import json
from pathlib import Path

_NAMES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

READINGS: tuple[str, ...] = tuple(_NAMES["readings"])
"""Names of all readings in a record."""
ASKED_BY_NAME: frozenset[str] = frozenset(_NAMES["asked_by_name"])
"""Readings of things that a request must name, such as units, and readings that only roles request.
A site's rules for the node check cannot use them."""
RULES: dict[str, str] = _NAMES["rules"]
"""The kind of each rule."""
