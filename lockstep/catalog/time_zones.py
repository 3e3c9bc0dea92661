"""Names of the time zone database, which the description may use.

Source: IANA, time zone database 2025b, tzdata.zi: the names of its lines Z (zones) and L (links),
as Debian's package tzdata 2025b-0+deb12u2 has them, looked up on 2026-11-24. The list is here
because the machine that makes a plan may have another release of the database, or none.
"""

from __future__ import annotations

import json
from pathlib import Path

NAMES: frozenset[str] = frozenset(
    json.loads(Path(__file__).with_suffix(".json").read_text(encoding="ascii"))
)
"""Such as Europe/Berlin. Debian 13 has the older ones, such as US/Pacific, in tzdata-legacy."""
