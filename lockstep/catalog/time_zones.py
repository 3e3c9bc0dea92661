"""Names of the time zone database: those that the description may use, and former ones.

Source: IANA, time zone database 2025b, tzdata.zi: the names of its lines Z (zones) and L (links),
as Debian's package tzdata 2025b-0+deb12u2 has them, looked up on 2026-11-24. Former names: the
files of Debian 13's package tzdata-legacy 2026f-0+deb13u1, each with its target in tzdata.zi, on
2026-11-28. Ubuntu 24.04 has such a package, too; it was not read. The lists are here because the
machine that makes a plan may have another release of the database, or none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_READ = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="ascii"))
NAMES: frozenset[str] = frozenset(_READ["names"])
"""Such as Europe/Berlin: every release has them in tzdata."""
FORMER: Mapping[str, str] = _READ["former"]
"""Former name -> the present one: US/Pacific -> America/Los_Angeles."""
