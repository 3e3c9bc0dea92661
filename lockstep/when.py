"""Formats and parses times: ``2026-11-20 14:03 UTC``, ``3 h 12 min``, ``36h``."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MINUTE_S = 60.0
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S

_UNITS = {"m": MINUTE_S, "h": HOUR_S, "d": DAY_S}


def utc(seconds: float) -> str:
    """Return a Unix time as text in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def between(first: float, last: float) -> str:
    """Return two Unix times as text in UTC: ``between 2026-11-20 08:00 and 09:00 UTC``."""
    one, other = utc(first).removesuffix(" UTC"), utc(last)
    if other == f"{one} UTC":
        return f"at {other}"
    return f"between {one} and {other.removeprefix(f'{one[:10]} ')}"


def span(seconds: float) -> str:
    """Return a duration as text with its two largest units."""
    rest = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, length in (("d", DAY_S), ("h", HOUR_S), ("min", MINUTE_S), ("s", 1.0)):
        count, rest = divmod(rest, int(length))
        if count or (parts and len(parts) < 2):
            parts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count) or "0 s"


def moment(text: str, now: float) -> float:
    """Return the Unix time of a date, or of ``90m``, ``36h`` or ``7d`` ago.

    Raises:
        ValueError: the text is neither a date nor an age; the message lists the accepted forms.
    """
    if ago := re.fullmatch(r"(\d+)(m|h|d)", text):
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        found = datetime.fromisoformat(text.removesuffix(" UTC"))
    except ValueError as error:
        raise ValueError(
            "an age such as 90m, 36h or 7d, or a UTC time such as 2026-11-20 or 2026-11-20T14:03"
        ) from error
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
