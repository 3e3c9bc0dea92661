"""What the probe reads and the check judges, by name, for a description that speaks of it.

Beside it lies checks.json: `make generate` writes it, and a test keeps it true.
"""

from __future__ import annotations

import json
from pathlib import Path

_NAMES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

READINGS: tuple[str, ...] = tuple(_NAMES["readings"])
"""All readings of a record."""
ASKED_BY_NAME: frozenset[str] = frozenset(_NAMES["asked_by_name"])
"""Readings of what the plan of a node names: a node that judges itself does not ask for them."""
RULES: dict[str, str] = _NAMES["rules"]
"""Rule -> its kind."""
